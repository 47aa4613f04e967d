#!/bin/bash
# hidden.sh: nodes 0 and 2 send more UDP to node 1 than the channel carries, until the emulation ends.
for node in 0 2; do
    ip netns exec fh-1 iperf3 -s -p 520$node >/dev/null &
done
sleep 0.3
for node in 0 2; do
    ip netns exec fh-$node iperf3 -u -c 10.77.0.1 -p 520$node -b 6M -l 1400 -t 10000 >/dev/null &
    # In virtual time both would send their ARP requests at the same instant, three times, and hidden broadcasts collide.
    sleep 0.3
done
wait
