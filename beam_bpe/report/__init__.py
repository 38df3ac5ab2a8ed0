"""The report: what a vocabulary is and what it makes of text, or two of them compared, as a page, as Markdown and as JSON.

    record.report_of(vocabulary, words)     all numbers, as JSON
    summary.summary(report)                 the same in three lines
    sections.page_of(report)                the same in words, tables and plots (also size_sections, group_sections)
    difference.difference_report(found)     all numbers of two vocabularies compared
    difference_sections.difference_page     the same in words, tables and plots
    page.html, markdown.text                a page, or Markdown, of any sections
    files.write                             the three files

The page is one file that needs no network and runs no script.  What comes from a corpus is shown by `texts.readable`
and escaped.  The same numbers give the same bytes (of one version of matplotlib and Jinja2).
"""
