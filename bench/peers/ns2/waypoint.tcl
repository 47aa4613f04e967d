# A random waypoint world in ns-2.35 with its own AODV, as it is: link feedback, no HELLO. Reads move.tcl and flows.txt of
# the current folder (bench/peers/waypoint.py writes them). No trace, few headers: for speed.
#
#   ns waypoint.tcl DURATION
set duration [lindex $argv 0]
source [file join [file dirname [info script]] aodv.tcl]
aodv_nodes 50 1501 301 10 {RTP}
source move.tcl
set flows [open flows.txt r]
while {[gets $flows line] >= 0} {
    lassign $line source sink start
    set udp [new Agent/UDP]
    set null [new Agent/Null]
    $ns_ attach-agent $node_($source) $udp
    $ns_ attach-agent $node_($sink) $null
    $ns_ connect $udp $null
    set cbr [new Application/Traffic/CBR]
    $cbr set packetSize_ 512
    $cbr set interval_ 0.25
    $cbr attach-agent $udp
    $ns_ at $start "$cbr start"
}
$ns_ at $duration "exit 0"
$ns_ run
