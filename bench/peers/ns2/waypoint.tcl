# A random waypoint world in ns-2.35 with its own AODV, as it is: link feedback, no HELLO. Reads move.tcl and flows.txt of
# the current folder (bench/peers/waypoint.py writes them). No trace, few headers: for speed.
#
#   ns waypoint.tcl DURATION
set duration [lindex $argv 0]
remove-all-packet-headers
foreach h {IP Mac LL ARP Flags AODV RTP} { add-packet-header $h }
source [file join [file dirname [info script]] radio-b.tcl]
Phy/WirelessPhy set CPThresh_ 10

set ns_ [new Simulator]
# The nodes ask for a trace file even where nothing is traced.
$ns_ trace-all [open /dev/null w]
set topo [new Topography]
$topo load_flatgrid 1501 301
set god_ [create-god 50]
$ns_ node-config -adhocRouting AODV -llType LL -macType Mac/802_11 -ifqType Queue/DropTail/PriQueue -ifqLen 50 \
    -antType Antenna/OmniAntenna -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy \
    -channel [new Channel/WirelessChannel] -topoInstance $topo \
    -agentTrace OFF -routerTrace OFF -macTrace OFF -movementTrace OFF
for {set i 0} {$i < 50} {incr i} {
    set node_($i) [$ns_ node]
    $node_($i) random-motion 0
}
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
