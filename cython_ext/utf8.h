/* A character out of UTF-8. */
#ifndef BEAM_BPE_UTF8_H
#define BEAM_BPE_UTF8_H

#include <stdint.h>

enum { CODE_POINTS = 0x110000 };

/* Bytes of the character at p, or 0 where p is not UTF-8 (Unicode 16, table 3-7). */
static inline uint32_t decode_character(const uint8_t *p, const uint8_t *end, uint32_t *character) {
    const uint32_t lead = p[0];
    if (lead < 0x80) {
        *character = lead;
        return 1;
    }
    const uint32_t size = lead < 0xC2 || lead > 0xF4 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (!size || end - p < size) return 0;
    uint32_t c = lead & (0x7Fu >> size);
    for (uint32_t i = 1; i < size; i++) {
        if ((p[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3F);
    }
    if ((size == 3 && (c < 0x800 || (c >= 0xD800 && c < 0xE000))) || (size == 4 && (c < 0x10000 || c >= CODE_POINTS)))
        return 0;
    *character = c;
    return size;
}

#endif
