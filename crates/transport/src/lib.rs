//! stub
#![allow(missing_docs)]
pub mod tcp {
    use fairhop_model::units::Nanos;
    #[derive(Clone, Copy, Debug)]
    pub struct Segment {
        pub len: u32,
    }
    impl Segment {
        pub fn header_bytes(&self) -> u32 {
            20
        }
    }
    #[derive(Clone, Copy, Debug, Default)]
    pub enum CongestionKind {
        #[default]
        NewReno,
    }
    #[derive(Clone, Copy, Debug, Default)]
    pub struct SenderConfig {
        pub mss: u32,
        pub initial_window: u32,
        pub congestion: CongestionKind,
        pub sack: bool,
        pub timestamps: bool,
        pub max_window: Option<u32>,
        pub min_rto: Nanos,
    }
    #[derive(Clone, Copy, Debug, Default)]
    pub struct ReceiverConfig {
        pub mss: u32,
        pub buffer: u32,
        pub delayed_ack_segments: u32,
        pub delayed_ack_timeout: Nanos,
        pub sack: bool,
        pub timestamps: bool,
    }
    #[derive(Clone, Copy, Debug, Default)]
    pub struct SenderStats {
        pub bytes_sent: u64,
        pub segments_sent: u64,
        pub segments_retransmitted: u64,
        pub timeouts: u64,
        pub recoveries: u64,
    }
    #[derive(Debug)]
    pub struct Sender {
        s: SenderStats,
    }
    impl Sender {
        pub fn new(_: SenderConfig) -> Self {
            Self { s: Default::default() }
        }
        pub fn open(&mut self, _: Nanos) {}
        pub fn offer(&mut self, _: u64) {}
        pub fn close(&mut self) {}
        pub fn on_segment(&mut self, _: Nanos, _: &Segment) {}
        pub fn on_timer(&mut self, _: Nanos) {}
        pub fn poll_transmit(&mut self, _: Nanos) -> Option<Segment> {
            None
        }
        pub fn next_timer(&self) -> Option<Nanos> {
            None
        }
        pub fn stats(&self) -> &SenderStats {
            &self.s
        }
        pub fn cwnd(&self) -> u64 {
            0
        }
        pub fn ssthresh(&self) -> u64 {
            0
        }
        pub fn srtt(&self) -> Option<Nanos> {
            None
        }
        pub fn in_flight(&self) -> u64 {
            0
        }
    }
    #[derive(Debug)]
    pub struct Receiver {}
    impl Receiver {
        pub fn new(_: ReceiverConfig) -> Self {
            Self {}
        }
        pub fn on_segment(&mut self, _: Nanos, _: &Segment) {}
        pub fn on_timer(&mut self, _: Nanos) {}
        pub fn poll_transmit(&mut self, _: Nanos) -> Option<Segment> {
            None
        }
        pub fn next_timer(&self) -> Option<Nanos> {
            None
        }
        pub fn delivered(&self) -> u64 {
            0
        }
    }
}
