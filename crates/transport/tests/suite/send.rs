//! The machines can move between threads, so that whatever holds them can: no `Rc`, no shared `Cell`, no raw pointer.
//! Checked by the compiler.

use fairhop_transport::{aimd, quic, tcp};

const _: fn() = || {
    fn assert_send<T: Send + 'static>() {}
    assert_send::<tcp::Sender>();
    assert_send::<tcp::Receiver>();
    assert_send::<quic::Sender>();
    assert_send::<quic::Receiver>();
    assert_send::<aimd::Sender>();
    assert_send::<aimd::Receiver>();
};
