#!/bin/bash
# flows.sh FROM TO ADDRESS CONTROL COUNT: TCP flows of the kernel between two attached places until the emulation ends.
# One segment a packet, and no figures kept from other flows, as in the laboratory and in the traces.
from=fh-$1 to=fh-$2
for name in "$from" "$to"; do
    for device in $(ip -n "$name" -o link | sed 's/^[0-9]*: \([^:@]*\).*/\1/'); do
        ip -n "$name" link set "$device" gso_max_segs 1
    done
    ip netns exec "$name" sysctl -qw net.ipv4.tcp_no_metrics_save=1
    ip netns exec "$name" sysctl -qw net.ipv4.tcp_wmem='4096 16384 4194304'
    ip netns exec "$name" sysctl -qw net.ipv4.tcp_rmem='4096 131072 6291456'
done
ip netns exec "$to" iperf3 -s >/dev/null &
sleep 0.3
exec ip netns exec "$from" iperf3 -c "$3" -C "$4" -P "$5" -t 10000 >/dev/null
