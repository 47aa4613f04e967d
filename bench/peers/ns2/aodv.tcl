# Nodes with ns-2's own AODV: link feedback, no HELLO, local repair. 802.11b: data at 2 Mb/s, ACKs and broadcasts at 1 Mb/s, no
# RTS, two-ray ground.
set here [file dirname [info script]]

# Makes the simulator `ns_` and the nodes `node_(0)` to `node_(count - 1)` in an area in metres. Packets have the headers of
# AODV and those of `headers` only, and nothing is traced: for speed.
proc aodv_nodes {count width height cpthresh headers} {
    global here ns_ node_
    remove-all-packet-headers
    foreach h [concat {IP Mac LL ARP Flags AODV} $headers] { add-packet-header $h }
    Mac/802_11 set dataRate_ 2Mb
    Mac/802_11 set basicRate_ 1Mb
    Mac/802_11 set RTSThreshold_ 3000
    source [file join $here radio-b.tcl]
    Phy/WirelessPhy set CPThresh_ $cpthresh

    set ns_ [new Simulator]
    # The nodes ask for a trace file even where nothing is traced.
    $ns_ trace-all [open /dev/null w]
    set topo [new Topography]
    $topo load_flatgrid $width $height
    create-god $count
    $ns_ node-config -adhocRouting AODV -llType LL -macType Mac/802_11 -ifqType Queue/DropTail/PriQueue -ifqLen 50 \
        -antType Antenna/OmniAntenna -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy \
        -channel [new Channel/WirelessChannel] -topoInstance $topo \
        -agentTrace OFF -routerTrace OFF -macTrace OFF -movementTrace OFF
    for {set i 0} {$i < $count} {incr i} {
        set node_($i) [$ns_ node]
        $node_($i) random-motion 0
    }
}
