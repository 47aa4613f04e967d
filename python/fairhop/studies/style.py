"""The style of the report: for phones, desktops and paper."""

STYLE = """
:root { --line: #d5d9de; --soft: #f4f6f8; --text: #1b1f24; --quiet: #57606a; --link: #0550ae; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; color: var(--text); background: #fff;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.35rem; margin: 2.5rem 0 .5rem; padding-bottom: .25rem; border-bottom: 2px solid var(--text); }
h3 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h4 { font-size: 1.05rem; margin: 0; }
h5 { font-size: .95rem; margin: 1rem 0 .25rem; }
h5.table { margin-top: 1.5rem; }
p { margin: .4rem 0; max-width: 46rem; }
a { color: var(--link); }
code { font: .875em ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; background: var(--soft);
  border-radius: 3px; padding: .05em .3em; overflow-wrap: anywhere; }
dl { margin: .5rem 0; }
dl > div { display: grid; grid-template-columns: 10rem 1fr; gap: 0 1rem; padding: .15rem 0; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
ul.ours { list-style: none; margin: 0; padding: 0; }
ul.ours li { margin-bottom: .2rem; }
ul.ours b { display: inline-block; min-width: 9.5em; font-weight: 600; }
article { border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1rem; margin: 1rem 0; }
article:target { border-color: var(--link); box-shadow: 0 0 0 2px var(--link); }
.setting { margin-top: 0; }
.setting::first-letter { text-transform: uppercase; }
.why { border-top: 1px solid var(--line); margin-top: .75rem; padding-top: .25rem; font-size: .95rem; }
.source { color: var(--quiet); }
.note { background: #fff8e1; border: 1px solid #d9b44a; border-radius: 8px; padding: .5rem 1rem; margin: 1rem 0; }
.note ul { margin: .4rem 0; padding-left: 1.2rem; }
.verdict { display: inline-block; white-space: nowrap; font-size: .85em; font-weight: 600; border-radius: 1em;
  padding: 0 .6em; border: 1px solid; }
.reproduced { color: #0a5132; background: #e3f4ea; border-color: #2f8f5b; }
.same-shape { color: #664400; background: #fff3d6; border-color: #b98300; }
.differs { color: #7d1a1a; background: #fdeaea; border-color: #c25454; }
.not-measured { color: #444; background: #eee; border-color: #888; }
.scroll { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid var(--text); background: var(--soft); }
tbody th { white-space: nowrap; font-weight: 600; }
td { min-width: 3.5rem; }
td.short { white-space: nowrap; }
td:not(.short) { min-width: 9rem; }
td[colspan] { text-align: center; }
table code { padding: 0; background: none; overflow-wrap: normal; }
figure { margin: 1rem 0; }
.panels { display: flex; align-items: flex-start; flex-wrap: wrap; gap: .5rem; }
.panels img { width: 23.5rem; max-width: 100%; height: auto; }
figcaption { font-size: .9rem; color: var(--quiet); max-width: 46rem; }
@media (max-width: 40rem) {
  body { padding: .75rem; }
  dl > div { grid-template-columns: 1fr; padding: .3rem 0; }
  dt { font-size: .85rem; }
  ul.ours b { display: block; }
  article { padding: .75rem; }
}
@media print {
  @page { margin: 15mm; }
  body { max-width: none; padding: 0; font-size: 9.5pt; }
  a { color: inherit; text-decoration: none; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; width: 100%; }
  td.short { white-space: normal; }
  td, td:not(.short) { min-width: 0; }
  th, td { padding: .15rem .3rem; overflow-wrap: anywhere; }
  tbody th { white-space: normal; }
  .panels img { width: 32.5%; }
  h2, h3, h4, h5 { break-after: avoid; }
  tr, figure, article > dl > div, img { break-inside: avoid; }
  thead { display: table-header-group; }
  .verdict, thead th, .note, code { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
