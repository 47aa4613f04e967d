//! Pages that need no other file, no script and no network.

use fairhop_sim::output::svg::escaped;

/// A page; `style` is CSS, `body` HTML.
pub(crate) fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{style}\n</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}
