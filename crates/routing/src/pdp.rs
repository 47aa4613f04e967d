//! The path density protocol: max-min shares of airtime, computed by the nodes themselves (osipov2007 §3.3, §4.4).
