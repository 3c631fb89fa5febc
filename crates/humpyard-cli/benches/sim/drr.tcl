# 64 Poisson flows through deficit round robin on one link: ns-2's part of `make bench-sim`. Takes the number of packets.
set packets [lindex $argv 0]
set flows 64
set bytes 732
# Packets per second, of all flows.
set rate 14700000.0
set load .835
# Headers that nobody reads take time; UDP writes that of RTP.
remove-all-packet-headers
add-packet-header IP RTP Flags
set ns [new Simulator]
set source [$ns node]
set target [$ns node]
$ns simplex-link $source $target [expr $rate * 8 * $bytes / $load] 1us DRR
set queue [[$ns link $source $target] queue]
$queue set buckets_ 128
$queue set blimit_ 1000000000
$queue set quantum_ 1500
$queue set mask_ 0
set sink [new Agent/Null]
$ns attach-agent $target $sink
for {set i 0} {$i < $flows} {incr i} {
    set agent [new Agent/UDP]
    $ns attach-agent $source $agent
    $agent set packetSize_ $bytes
    # DRR tells flows apart by a hash of the source address, which is the same for 16 n and 16 n - 1.
    $agent set agent_addr_ [expr $i + 1 + $i / 15]
    $ns connect $agent $sink
    # Bursts of one packet and an exponential gap: a Poisson process.
    set traffic [new Application/Traffic/Exponential]
    $traffic set packetSize_ $bytes
    $traffic set burst_time_ 0
    $traffic set idle_time_ [expr $flows / $rate]
    $traffic set rate_ 1e12
    $traffic attach-agent $agent
    $ns at 0 "$traffic start"
}
$ns at [expr $packets / $rate] "exit 0"
$ns run
