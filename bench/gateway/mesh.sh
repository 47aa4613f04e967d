#!/bin/bash
# mesh.sh LAST CALLS FLOWS DELAY_MS VARIANT [QUEUE RATE_KBPS]: calls between fh-internet and fh-LAST, and downloads of the
# kernel's TCP from a server that is DELAY_MS behind fh-internet, until the emulation ends. A QUEUE, cake or fq_codel, shapes
# what enters the mesh to RATE_KBPS. FAIRHOP is the program of the emulation.
last=fh-$1 address=10.77.0.$1 calls=$2 flows=$3 delay=$4 variant=$5 queue=$6 rate=$7
ip netns add fh-server
ip link add wired netns fh-internet type veth peer name wired netns fh-server
ip -n fh-internet addr add 10.79.0.1/24 dev wired
ip -n fh-server addr add 10.79.0.2/24 dev wired
for name in fh-internet fh-server; do
    # One segment a packet, as routers pass them on without offloads.
    ip -n "$name" link set wired gso_max_segs 1 up
    tc -n "$name" qdisc add dev wired root netem delay "${delay}ms" limit 10000
done
ip -n fh-server route add default via 10.79.0.1
ip netns exec fh-internet sysctl -qw net.ipv4.ip_forward=1
for name in fh-server "$last"; do
    ip netns exec "$name" sysctl -qw net.ipv4.tcp_no_metrics_save=1
done
case $queue in
cake) tc -n fh-internet qdisc replace dev fh0 root cake bandwidth "${rate}kbit" dual-dsthost diffserv4 ;;
fq_codel)
    tc -n fh-internet qdisc replace dev fh0 root handle 1: htb default 1
    tc -n fh-internet class add dev fh0 parent 1: classid 1:1 htb rate "${rate}kbit" burst 1600 cburst 1600
    tc -n fh-internet qdisc add dev fh0 parent 1:1 fq_codel
    ;;
esac
# Not iperf3: until the answer on its control connection has come, which takes seconds behind a full path, iperf3 3.12 waits
# actively and sends nothing.
ip netns exec fh-server sysctl -qw net.ipv4.tcp_congestion_control="$variant"
# Nothing is ever written to it, so that nc does not end its side of the connection.
silence=$(mktemp -u)
mkfifo "$silence"
exec 9<>"$silence"
rm "$silence"
for ((port = 5201; port < 5201 + flows; port++)); do
    ip netns exec "$last" busybox nc -l -p "$port" <&9 >/dev/null &
done
ip netns exec "$last" "$FAIRHOP" call answer --bind 0.0.0.0 >/dev/null 2>&1 &
sleep 0.1
ip netns exec fh-internet "$FAIRHOP" call make "$address" --count "$calls" --duration 10000 >/dev/null &
sleep 0.9
for ((port = 5201; port < 5201 + flows; port++)); do
    ip netns exec fh-server bash -c "exec cat /dev/zero >/dev/tcp/$address/$port" &
done
wait
