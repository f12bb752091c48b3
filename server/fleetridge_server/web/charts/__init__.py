"""
Charts as SVG text, drawn by pure functions: values of what is to be seen in, text out.

Nothing here knows of pages, HTTP or the database. A chart is drawn for a layout, `WIDE` or `NARROW`;
`svg.inline_chart` puts both into a page, where `chart.css` shows the one that fits, and `svg.standalone_svg` makes a
file of one.
"""
