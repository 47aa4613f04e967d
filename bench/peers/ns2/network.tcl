# One network of the peer comparison in ns-2.35: a string, parallel strings, a grid or one cell, with calls, TCP, bursts
# and CBR.
#
#   ns network.tcl key value ...        (keys and defaults: `opt` below)
#
# Static routes without a routing protocol. The stock binary has none for wireless nodes, and waiting for DSDV to
# converge costs hundreds of simulated seconds. Here every node has one link layer per neighbour, without an ARP table
# and with the neighbour's MAC address fixed (`macDA_`), and two address classifiers in front of them:
#
#   agents, wired link --> down(i) ------------------> LL to the next hop --> interface queue --> MAC
#   MAC --> LL --> up(i) --> Phy/Repeater (turns it) --> LL to the next hop --> the same queue
#                       \-> ports(i) (own address)
#
# A packet from the MAC is marked as going up, and the link layer would only pass it upwards; `Phy/Repeater` is the only
# stock object that reverses its direction. So there are no routing or ARP packets, and no 20 bytes are added at the
# source, as routing agents would.
#
# Sizes: the MAC header of ns-2.35 has 34 bytes (four addresses), so every packet gets 2 bytes more than its IP size,
# and a frame has IP packet + 8 LLC/SNAP + 28 MAC like everywhere else in this comparison.

array set opt {
    topology string  hops 4  lines 1  columns 10  rows 10  stations 10
    spacing 200      line_spacing 200
    standard 11a     rate 12  basic 6  rts 0   short_retry 7  long_retry 4
    cpthresh 10      queue 50  lldelay 0
    internet 1       wire_mbps 100  wire_ms 30
    calls 0          tcp 0  burst 0  burst_kbps 550  burst_packet 1500
    cbr_kbps 0       cbr_payload 512
    mss 1460         window 64  iw 10  minrto 1.0  delack 2  delack_ms 200  tcpclass Newreno
    duration 65      warmup 5  seed 1  trace ""  mactrace ""  scheduler Heap  headers few
}
array set opt $argv
set started [clock milliseconds]

# Only the headers in use: by default a packet of ns-2 carries those of every protocol, which makes it slower.
if {$opt(headers) eq "few"} {
    remove-all-packet-headers
    foreach h {IP TCP RTP Mac LL ARP Flags} { add-packet-header $h }
}

# ---- the standard ----------------------------------------------------------------------------------------------
Mac/802_11 set dataRate_ $opt(rate)Mb
Mac/802_11 set basicRate_ $opt(basic)Mb
Mac/802_11 set CWMax_ 1023
Mac/802_11 set ShortRetryLimit_ $opt(short_retry)
Mac/802_11 set LongRetryLimit_ $opt(long_retry)
Mac/802_11 set RTSThreshold_ [expr {$opt(rts) ? 0 : 3000}]
if {$opt(standard) eq "11a"} {
    # Preamble 16 us and SIGNAL 4 us, as bits at 6 Mb/s: ns-2 has no other form.
    Mac/802_11 set CWMin_ 15
    Mac/802_11 set SlotTime_ 0.000009
    Mac/802_11 set SIFS_ 0.000016
    Mac/802_11 set PreambleLength_ 96
    Mac/802_11 set PLCPHeaderLength_ 24
    Mac/802_11 set PLCPDataRate_ 6Mb
} else {
    source [file join [file dirname [info script]] radio-b.tcl]
}
# Two-ray ground with the default power and thresholds: decoded to 250 m, sensed to 550 m. CPThresh_ is a ratio.
Phy/WirelessPhy set CPThresh_ $opt(cpthresh)
LL set delay_ $opt(lldelay)us

# ---- nodes -----------------------------------------------------------------------------------------------------
set places {}
switch $opt(topology) {
    string {
        for {set l 0} {$l < $opt(lines)} {incr l} {
            for {set h 0} {$h <= $opt(hops)} {incr h} {
                lappend places [list [expr {$h * $opt(spacing)}] [expr {$l * $opt(line_spacing)}]]
            }
        }
    }
    grid {
        for {set r 0} {$r < $opt(rows)} {incr r} {
            for {set c 0} {$c < $opt(columns)} {incr c} {
                lappend places [list [expr {$c * $opt(spacing)}] [expr {$r * $opt(spacing)}]]
            }
        }
    }
    cell {
        # Stations on a circle of 1 m around the receiver, node 0: all hear all, power hardly differs.
        lappend places {0.0 0.0}
        for {set s 0} {$s < $opt(stations)} {incr s} {
            set a [expr {6.283185307179586 * $s / $opt(stations)}]
            lappend places [list [expr {cos($a)}] [expr {sin($a)}]]
        }
    }
}
set count [llength $places]
set far $count ;# the address of the host in the Internet

set ns [new Simulator]
$ns use-scheduler $opt(scheduler)
ns-random $opt(seed)
set rng [new RNG]
$rng seed [expr {$opt(seed) + 1000}]
set topo [new Topography]
$topo load_flatgrid 20000 20000
create-god $count
# ns-2 creates no wireless node without a trace file. Without `mactrace` nothing is written: drops, the only events
# traced by default, go to the null agent below.
set mt [expr {$opt(mactrace) ne "" ? "ON" : "OFF"}]
$ns trace-all [open [expr {$mt eq "ON" ? $opt(mactrace) : "/dev/null"}] w]
$ns node-config -adhocRouting DumbAgent -llType LL -macType Mac/802_11 -ifqType Queue/DropTail -ifqLen $opt(queue) \
    -antType Antenna/OmniAntenna -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy -topoInstance $topo \
    -channel [new Channel/WirelessChannel] -agentTrace OFF -routerTrace OFF -macTrace $mt -movementTrace OFF

proc classifier {} {
    set c [new Classifier/Addr]
    $c set mask_ 0xffffffff
    $c set shift_ 0
    return $c
}
for {set i 0} {$i < $count} {incr i} {
    set node($i) [$ns node]
    $node($i) random-motion 0
    lassign [lindex $places $i] x y
    # Two-ray ground needs positive coordinates inside the area.
    $node($i) set X_ [expr {$x + 100.0}]
    $node($i) set Y_ [expr {$y + 100.0}]
    $node($i) set Z_ 0.0
    set mac($i) [$node($i) set mac_(0)]
    set ifq($i) [$node($i) set ifq_(0)]
    if {$mt eq "OFF"} { foreach part [list $ifq($i) $mac($i)] { $part drop-target [$ns set nullAgent_] } }
    set up($i) [classifier]
    set down($i) [classifier]
    set ports($i) [new Classifier/Port]
    $up($i) install $i $ports($i)
    $down($i) install $i $ports($i)
    set ll [$node($i) set ll_(0)]
    $ll up-target $up($i)
}
set ports($far) [new Classifier/Port]

# The link layers from node `i` to neighbour `j`: {for packets from above, for packets from the air}.
proc link_to {i j} {
    global links mac ifq up
    if {![info exists links($i,$j)]} {
        set ll [new LL]
        $ll mac $mac($i)
        $ll down-target $ifq($i)
        $ll up-target $up($i)
        $ll set macDA_ [$mac($j) id]
        set turn [new Phy/Repeater]
        $turn up-target $ll
        set links($i,$j) [list $ll $turn]
    }
    return $links($i,$j)
}
# Routes along `path`, a list of nodes, both ways. `before` and `after` are addresses behind its two ends.
proc route {path {before {}} {after {}}} {
    global up down
    set n [llength $path]
    for {set a 0} {$a < $n} {incr a} {
        set i [lindex $path $a]
        if {$a + 1 < $n} {
            lassign [link_to $i [lindex $path $a+1]] ll turn
            foreach dst [concat [lrange $path $a+1 end] $after] {
                $down($i) install $dst $ll
                $up($i) install $dst $turn
            }
        }
        if {$a > 0} {
            lassign [link_to $i [lindex $path $a-1]] ll turn
            foreach dst [concat [lrange $path 0 $a-1] $before] {
                $down($i) install $dst $ll
                $up($i) install $dst $turn
            }
        }
    }
}
proc range {from to} {
    set l {}
    for {set i $from} {$i <= $to} {incr i} { lappend l $i }
    return $l
}
switch $opt(topology) {
    string {
        for {set l 0} {$l < $opt(lines)} {incr l} {
            set first [expr {$l * ($opt(hops) + 1)}]
            set path [range $first [expr {$first + $opt(hops)}]]
            if {$opt(internet) && $l == 0} { route $path $far } else { route $path }
        }
    }
    grid {
        for {set r 0} {$r < $opt(rows)} {incr r} {
            set first [expr {$r * $opt(columns)}]
            route [range $first [expr {$first + $opt(columns) - 1}]]
        }
    }
    cell { for {set s 1} {$s <= $opt(stations)} {incr s} { route [list $s 0] } }
}

# ---- the wired link between the host in the Internet and node 0 --------------------------------------------------
proc wire {to} {
    global opt ns
    set link [new DelayLink]
    $link set bandwidth_ $opt(wire_mbps)Mb
    $link set delay_ $opt(wire_ms)ms
    $link target $to
    set queue [new Queue/DropTail]
    $queue set limit_ 1000
    $queue target $link
    $queue drop-target [$ns set nullAgent_]
    return $queue
}
if {$opt(internet)} {
    set down($far) [wire $down(0)]
    set out [wire $ports($far)]
    $up(0) install $far $out
    $down(0) install $far $out
}

# ---- traffic -----------------------------------------------------------------------------------------------------
set trace ""
if {$opt(trace) ne ""} { set trace [open $opt(trace) w] }
set fid 0
set port 0

# Attaches a pair of agents. With tracing, each packet sent and each received writes a line with its flow.
proc attach {src dst from to traced} {
    global down ports port fid trace
    incr port
    foreach {agent here there} [list $src $from $to $dst $to $from] {
        $agent set agent_addr_ $here
        $agent set agent_port_ $port
        $agent set dst_addr_ $there
        $agent set dst_port_ $port
        $agent set fid_ $fid
        $agent target $down($here)
        $ports($here) install $port $agent
    }
    if {$traced && $trace ne ""} {
        foreach {kind} {Enque Recv} {
            set t($kind) [new Trace/$kind]
            $t($kind) attach $trace
            $t($kind) set src_ $from
            $t($kind) set dst_ $to
        }
        $t(Enque) target $down($from)
        $src target $t(Enque)
        $t(Recv) target $dst
        $ports($to) install $port $t(Recv)
    }
    incr fid
}
# UDP from `from` to `to`: `burst` packets of `ip` bytes every `interval` seconds, starting at a random phase.
proc datagrams {name from to ip burst interval start} {
    global ns rng fid opt
    set udp [new Agent/UDP]
    $udp set packetSize_ 10000
    set sink [new Agent/LossMonitor]
    puts "flow $fid $name $from $to"
    attach $udp $sink $from $to 1
    set phase [expr {$start + [$rng uniform 0 $interval]}]
    for {set b 0} {$b < $burst} {incr b} {
        set cbr [new Application/Traffic/CBR]
        $cbr set packetSize_ [expr {$ip + 2}]
        $cbr set interval_ $interval
        $cbr set random_ 0
        $cbr attach-agent $udp
        $ns at $phase "$cbr start"
    }
    return $sink
}
set last [expr {$opt(topology) eq "string" ? $opt(hops) : $count - 1}]
set sinks {}

# Calls: G.729a, 20 bytes in 40 bytes of RTP, UDP and IP every 20 ms each way, between node 0 and the last node.
for {set c 0} {$c < $opt(calls)} {incr c} {
    datagrams call-$c-down 0 $last 60 1 0.02 0
    datagrams call-$c-up $last 0 60 1 0.02 0
}
# Bursts from node 0 to the last node (kim2010, Table 1).
if {$opt(burst) > 0} {
    set every [expr {$opt(burst) * $opt(burst_packet) * 8.0 / ($opt(burst_kbps) * 1000.0)}]
    datagrams burst 0 $last $opt(burst_packet) $opt(burst) $every 0
}
# CBR: grid, one flow along each row from its first to its last node; cell, from each station to node 0.
if {$opt(cbr_kbps) > 0} {
    set every [expr {$opt(cbr_payload) * 8.0 / ($opt(cbr_kbps) * 1000.0)}]
    set ip [expr {$opt(cbr_payload) + 28}]
    if {$opt(topology) eq "grid"} {
        for {set r 0} {$r < $opt(rows)} {incr r} {
            set a [expr {$r * $opt(columns)}]
            lappend sinks [datagrams cbr-$r $a [expr {$a + $opt(columns) - 1}] $ip 1 $every 0]
        }
    } else {
        for {set s 1} {$s <= $opt(stations)} {incr s} { lappend sinks [datagrams cbr-$s $s 0 $ip 1 $every 0] }
    }
}
# TCP: from the Internet (or from a string's first node) to the string's last node; flow k on line k modulo lines.
set tcps {}
for {set k 0} {$k < $opt(tcp)} {incr k} {
    set line [expr {$k % $opt(lines)}]
    set from [expr {$opt(internet) ? $far : $line * ($opt(hops) + 1)}]
    set to [expr {$line * ($opt(hops) + 1) + $opt(hops)}]
    set tcp [new Agent/TCP/$opt(tcpclass)]
    $tcp set packetSize_ $opt(mss)
    $tcp set tcpip_base_hdr_size_ 42
    $tcp set window_ $opt(window)
    $tcp set windowInit_ $opt(iw)
    $tcp set minrto_ $opt(minrto)
    set kind [expr {$opt(tcpclass) eq "Sack1" ? "TCPSink/Sack1" : "TCPSink"}]
    if {$opt(delack) > 1} {
        set sink [new Agent/$kind/DelAck]
        $sink set interval_ $opt(delack_ms)ms
    } else {
        set sink [new Agent/$kind]
    }
    $sink set packetSize_ 42
    puts "flow $fid tcp-$k $from $to"
    attach $tcp $sink $from $to 0
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    # Apart by up to 100 ms, so that flows do not move in step.
    $ns at [$rng uniform 0 0.1] "$ftp start"
    lappend tcps $tcp $sink
}

# ---- measurement -------------------------------------------------------------------------------------------------
proc sample {} {
    global tcps sinks
    set s {}
    foreach {tcp sink} $tcps { lappend s [$sink set bytes_] [$tcp set ndatapack_] }
    foreach sink $sinks { lappend s [$sink set bytes_] }
    return $s
}
proc begin {} {
    global at0
    set at0 [clock milliseconds]
}
proc warm {} {
    global before
    set before [sample]
}
proc finish {} {
    global before opt tcps sinks at0 started trace
    set wall [clock milliseconds]
    set now [sample]
    set span [expr {$opt(duration) - $opt(warmup)}]
    set i 0
    set k 0
    foreach {tcp sink} $tcps {
        # The sink counts packets with their headers.
        set got [expr {([lindex $now $i] - [lindex $before $i]) * double($opt(mss)) / ($opt(mss) + 42)}]
        set sent [expr {([lindex $now $i+1] - [lindex $before $i+1]) * $opt(mss)}]
        puts "tcp $k [expr {$got * 8e-6 / $span}] [expr {$sent * 8e-6 / $span}]"
        incr i 2
        incr k
    }
    set k 0
    foreach sink $sinks {
        set got [expr {([lindex $now $i] - [lindex $before $i]) * double($opt(cbr_payload)) / ($opt(cbr_payload) + 30)}]
        puts "cbr $k [expr {$got * 8e-6 / $span}]"
        incr i
        incr k
    }
    puts "wall_ms [expr {$wall - $at0}] [expr {$wall - $started}]"
    if {$trace ne ""} { flush $trace }
    exit 0
}
$ns at 0.0 begin
$ns at $opt(warmup) warm
$ns at $opt(duration) finish
$ns run
