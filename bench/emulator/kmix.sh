#!/bin/bash
# kmix.sh CALLS: five calls between fh-0 and fh-4, by `fairhop call` or by sipp, and three downloads of the kernel's TCP from
# fh-internet, until the emulation ends.
cd "$(dirname "$0")" || exit
# The program that runs this script.
fairhop=$(readlink "/proc/$PPID/exe")
case $1 in
    fairhop)
        ip netns exec fh-4 "$fairhop" call answer --bind 0.0.0.0 >/dev/null 2>&1 &
        sleep 0.1
        ip netns exec fh-0 "$fairhop" call make 10.77.0.4 --count 5 --duration 10000 >/dev/null &
        ;;
    sipp)
        ip netns exec fh-4 sipp -sf answer.xml -i 10.77.0.4 -mi 10.77.0.4 -min_rtp_port 6000 -nostdin >/dev/null 2>&1 &
        sleep 0.1
        ip netns exec fh-0 sipp -sf call.xml -i 10.77.0.0 -mi 10.77.0.0 -min_rtp_port 7000 -nostdin \
            -m 5 -l 5 -r 5 10.77.0.4 >/dev/null 2>&1 &
        ;;
esac
exec ./flows.sh internet 4 10.77.0.4 reno 3
