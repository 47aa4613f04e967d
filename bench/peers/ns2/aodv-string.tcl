# A TCP flow over a string in ns-2.35 with its own AODV: link feedback, no HELLO, local repair as the program has it.
# Prints the goodput in Mb/s from second 10 to second 70.
#
#   ns aodv-string.tcl HOPS CPTHRESH SEED
lassign $argv hops cpthresh seed
source [file join [file dirname [info script]] aodv.tcl]
aodv_nodes [expr {$hops + 1}] 3000 300 $cpthresh {TCP}
# Another seed is another start within 100 ms, and other backoffs.
ns-random $seed
for {set i 0} {$i <= $hops} {incr i} {
    $node_($i) set X_ [expr {$i * 200.0 + 100.0}]
    $node_($i) set Y_ 100.0
    $node_($i) set Z_ 0.0
}
set tcp [new Agent/TCP/Newreno]
# IP packets of 1500 bytes: ns-2 adds 40 to TCP's size, and counts a MAC header of 34.
$tcp set packetSize_ 1460
$tcp set window_ 64
$tcp set minrto_ 1.0
set sink [new Agent/TCPSink]
$ns_ attach-agent $node_(0) $tcp
$ns_ attach-agent $node_($hops) $sink
$ns_ connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp
set rng [new RNG]
$rng seed [expr {$seed + 1000}]
$ns_ at [expr {1.0 + [$rng uniform 0 0.1]}] "$ftp start"

$ns_ at 10.0 {set before [$sink set bytes_]}
$ns_ at 70.0 {
    # The sink counts headers of 40 bytes.
    puts [format %.4f [expr {([$sink set bytes_] - $before) * 1460.0 / 1500.0 * 8e-6 / 60.0}]]
    exit 0
}
$ns_ run
