#!/bin/bash
# kmix.sh CALLS: five calls between fh-0 and fh-4, by `fairhop call` or by sipp, and three downloads of the kernel's TCP from
# fh-internet, until the emulation ends. FAIRHOP is the program of the emulation.
cd "$(dirname "$0")" || exit
case $1 in
fairhop)
    ip netns exec fh-4 "$FAIRHOP" call answer --bind 0.0.0.0 >/dev/null 2>&1 &
    sleep 0.1
    ip netns exec fh-0 "$FAIRHOP" call make 10.77.0.4 --count 5 --duration 10000 >/dev/null &
    ;;
sipp)
    # A sipp of its own for each call: the streams of one sipp share their ports. Its packets leave at a phase of their
    # interval of 20 ms that depends on its start: pauses of 20 to 40 ms make all phases equally likely.
    pause() { sleep "0.0$((20000 + SRANDOM % 20000))"; }
    head -c 20000 /dev/zero | tr '\0' U >/tmp/speech.g729
    for call in 0 1 2 3 4; do
        ip netns exec fh-4 sipp -sf ./answer.xml -nostdin -i 10.77.0.4 -p $((5060 + call)) \
            -mi 10.77.0.4 -mp $((6000 + 10 * call)) >/dev/null 2>&1 &
        pause
    done
    sleep 0.1
    for call in 0 1 2 3 4; do
        ip netns exec fh-0 sipp -sf ./call.xml -nostdin -m 1 -i 10.77.0.0 -p $((5060 + call)) \
            -mi 10.77.0.0 -mp $((7000 + 10 * call)) 10.77.0.4:$((5060 + call)) >/dev/null 2>&1 &
        pause
    done
    ;;
esac
exec ./flows.sh internet 4 10.77.0.4 reno 3
