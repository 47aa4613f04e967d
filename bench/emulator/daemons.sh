#!/bin/bash
# daemons.sh DAEMON: babeld, bird or batman-adv on nine nodes. Says on standard error when a packet first goes from corner 0
# to corner 8 and back, what TCP carries over the grid, and how long the way was interrupted later (see grid.toml).
began=$EPOCHREALTIME
since() { awk -v began="$began" -v now="$EPOCHREALTIME" 'BEGIN { printf "%.1f", now - began }'; }
to=10.77.0.8
for node in 0 1 2 3 4 5 6 7 8; do
    run="ip netns exec fh-$node"
    case $1 in
    babeld)
        $run babeld -D -I "/tmp/$node.pid" -S "/tmp/$node.state" -L "/tmp/$node.log" \
            -C 'interface fh0 type wireless' -C 'redistribute local' -C 'redistribute local deny' fh0
        ;;
    bird)
        cat >"/tmp/$node.conf" <<END
router id 10.77.0.$node;
protocol device { }
protocol direct { ipv4; interface "fh0"; }
protocol kernel { ipv4 { export where source = RTS_BABEL; }; }
protocol babel { ipv4 { import all; export all; }; interface "fh0" { type wireless; }; }
END
        $run bird -c "/tmp/$node.conf" -s "/tmp/$node.control" -P "/tmp/$node.pid"
        ;;
    batman)
        # Room for batman-adv's header; what its frames carry has the usual MTU.
        ip -n "fh-$node" link set fh0 mtu 1560
        $run batctl meshif bat0 interface create
        $run batctl meshif bat0 interface add fh0
        ip -n "fh-$node" address add "10.79.0.$node/24" dev bat0
        ip -n "fh-$node" link set bat0 up
        to=10.79.0.8
        ;;
    esac
done
until ip netns exec fh-0 ping -q -c 1 -W 1 "$to" >/dev/null 2>&1; do
    sleep 0.2
done
echo "converged $(since)" >&2
tcp() { ip netns exec fh-0 iperf3 -c "$to" -t 10 -f k | awk '/receiver/ { print $(NF - 2) }'; }
ip netns exec fh-8 iperf3 -s >/dev/null &
sleep 30
echo "before $(tcp)" >&2
# Until 255 s after the start: node 1 is off from 80 to 140 s, node 3 from 200 s.
ip netns exec fh-0 ping -D -O -i 0.1 -w "$(awk -v now="$(since)" 'BEGIN { printf "%d", 255 - now }')" "$to" >/tmp/ping
awk -v began="$began" '
    /bytes from/ { replies[++count] = substr($1, 2) - began }
    END {
        for (start = 80; start <= 200; start += 120) {
            last = start; longest = 0
            for (i = 1; i <= count && replies[i] < start + 54; i++) {
                if (replies[i] > start && replies[i] - last > longest) longest = replies[i] - last
                last = replies[i]
            }
            # Without any more replies, up to the end.
            if (start + 54 - last > longest) longest = start + 54 - last
            printf "interrupted %d %.1f\n", start, longest
        }
    }' /tmp/ping >&2
echo "after $(tcp)" >&2
