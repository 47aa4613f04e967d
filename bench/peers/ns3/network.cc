// One network of the peer comparison in ns-3.37: a string, parallel strings, a grid or one cell, with calls, TCP, bursts
// and CBR. The same networks as ../ns2/network.tcl, with two realizations of the capture rule:
//
//   disc  no capture. Loss matrix: -70 dBm from a neighbour that can be decoded, -70.2 dBm from one that can only be
//         sensed, nothing from beyond. Preambles lock from -70.1 dBm up, energy is detected from -71.2 dBm up. So a
//         sensed frame is energy only (it never locks the receiver and EIFS never follows it), and any overlap leaves
//         about 0 dB of SINR, which kills both frames. DSSS survives that, so under 802.11b a sensed frame comes with
//         -50 dBm, and a custom preamble model keeps it from locking.
//   lock  first come. Log-distance with exponent 3 and 46 m between neighbours: SNR 13.5, 4.5 and -0.8 dB at 1, 2 and 3
//         hops. A frame from two hops away locks the receiver, cannot be decoded and is followed by EIFS; a frame being
//         received survives one that starts later two hops away.
//
// Output after the warm-up, one line per flow:
//   udp NAME SENT GOODPUT_MBPS DELAY_US...     one delay for each packet received of those sent
//   tcp NAME GOODPUT_MBPS SENT_MBPS
//   wall_ms RUN TOTAL

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/neighbor-cache-helper.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/propagation-module.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

struct Options
{
    std::string topology = "string";
    uint32_t hops = 4;
    uint32_t lines = 1;
    uint32_t columns = 10;
    uint32_t rows = 10;
    uint32_t stations = 10;
    double spacing = 200;
    double lineSpacing = 200;
    std::string standard = "11a";
    std::string rate = "12";
    std::string rule = "disc";
    bool rts = false;
    bool internet = true;
    uint32_t calls = 0;
    uint32_t tcp = 0;
    uint32_t burst = 0;
    double burstKbps = 550;
    uint32_t burstPacket = 1500;
    double cbrKbps = 0;
    uint32_t cbrPayload = 1000;
    uint32_t mss = 1460;
    uint32_t delack = 2;
    double delackMs = 200;
    double minRto = 1.0;
    uint32_t buffer = 131072;
    double duration = 65;
    double warmup = 5;
    double settle = 1;
    uint32_t seed = 1;
};

Options opt;

/// Power of a frame from a neighbour under `disc`, in dBm.
constexpr double decodableDbm = -70.0;

/// Locks only on frames from neighbours, whatever the power of others: `disc` under DSSS.
class NeighbourPreambleDetectionModel : public PreambleDetectionModel
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("ns3::NeighbourPreambleDetectionModel")
                                .SetParent<PreambleDetectionModel>()
                                .AddConstructor<NeighbourPreambleDetectionModel>();
        return tid;
    }

    bool IsPreambleDetected(double rssiW, double snr, double) const override
    {
        return std::abs(WToDbm(rssiW) - decodableDbm) < 0.1 && RatioToDb(snr) >= 4;
    }
};

NS_OBJECT_ENSURE_REGISTERED(NeighbourPreambleDetectionModel);

/// Datagrams one way: `burst` of them every `interval`, starting at a random phase. Delays are stored for packets sent after
/// the warm-up and early enough to have arrived before the end.
struct Stream
{
    std::string name;
    Ptr<Socket> out;
    Ptr<Socket> in;
    uint32_t payload = 0;
    uint32_t burst = 1;
    Time interval;
    uint64_t sent = 0;
    uint64_t bytes = 0;
    std::vector<double> delaysUs;

    static bool Counts(Time sentAt)
    {
        return sentAt >= Seconds(opt.warmup) && sentAt < Seconds(opt.duration - opt.settle);
    }

    void Send()
    {
        for (uint32_t i = 0; i < burst; ++i)
        {
            SeqTsHeader stamp; // 12 bytes, as long as an RTP header; carries the time of sending
            Ptr<Packet> packet = Create<Packet>(payload - stamp.GetSerializedSize());
            packet->AddHeader(stamp);
            if (Counts(Simulator::Now()))
            {
                ++sent;
            }
            out->Send(packet);
        }
        Simulator::Schedule(interval, &Stream::Send, this);
    }

    void Receive(Ptr<Socket> socket)
    {
        while (Ptr<Packet> packet = socket->Recv())
        {
            if (Simulator::Now() >= Seconds(opt.warmup))
            {
                bytes += packet->GetSize();
            }
            SeqTsHeader stamp;
            packet->RemoveHeader(stamp);
            if (Counts(stamp.GetTs()))
            {
                delaysUs.push_back((Simulator::Now() - stamp.GetTs()).GetNanoSeconds() / 1e3);
            }
        }
    }
};

/// A TCP transfer without end.
struct Transfer
{
    std::string name;
    Ptr<PacketSink> sink;
    Ptr<BulkSendApplication> source;
    uint64_t received = 0;
    uint64_t sentBytes = 0;

    void Hook()
    {
        source->GetSocket()->TraceConnectWithoutContext("Tx", MakeCallback(&Transfer::Sent, this));
    }

    void Sent(Ptr<const Packet> packet, const TcpHeader&, Ptr<const TcpSocketBase>)
    {
        if (Simulator::Now() >= Seconds(opt.warmup))
        {
            sentBytes += packet->GetSize();
        }
    }

    void Warm()
    {
        received = sink->GetTotalRx();
    }
};

std::vector<std::unique_ptr<Stream>> streams;
std::vector<std::unique_ptr<Transfer>> transfers;
uint16_t nextPort = 5000;

void
AddStream(const std::string& name, Ptr<Node> from, Ptr<Node> to, Ipv4Address at, uint32_t payload, uint32_t burst, double every)
{
    auto s = std::make_unique<Stream>();
    const uint16_t port = nextPort++;
    s->name = name;
    s->payload = payload;
    s->burst = burst;
    s->interval = Seconds(every);
    s->in = Socket::CreateSocket(to, UdpSocketFactory::GetTypeId());
    s->in->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
    s->in->SetRecvCallback(MakeCallback(&Stream::Receive, s.get()));
    s->out = Socket::CreateSocket(from, UdpSocketFactory::GetTypeId());
    s->out->Bind();
    s->out->Connect(InetSocketAddress(at, port));
    Ptr<UniformRandomVariable> phase = CreateObject<UniformRandomVariable>();
    Simulator::Schedule(Seconds(phase->GetValue(0, every)), &Stream::Send, s.get());
    streams.push_back(std::move(s));
}

void
AddTransfer(const std::string& name, Ptr<Node> from, Ptr<Node> to, Ipv4Address at)
{
    auto t = std::make_unique<Transfer>();
    const uint16_t port = nextPort++;
    t->name = name;
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    t->sink = DynamicCast<PacketSink>(sink.Install(to).Get(0));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(at, port));
    bulk.SetAttribute("MaxBytes", UintegerValue(0));
    bulk.SetAttribute("SendSize", UintegerValue(opt.mss));
    t->source = DynamicCast<BulkSendApplication>(bulk.Install(from).Get(0));
    // Apart by up to 100 ms, so that flows do not move in step.
    Ptr<UniformRandomVariable> phase = CreateObject<UniformRandomVariable>();
    const Time start = Seconds(phase->GetValue(0, 0.1));
    t->source->SetStartTime(start);
    Simulator::Schedule(start + NanoSeconds(1), &Transfer::Hook, t.get());
    Simulator::Schedule(Seconds(opt.warmup), &Transfer::Warm, t.get());
    transfers.push_back(std::move(t));
}

std::vector<Vector>
Places()
{
    std::vector<Vector> places;
    if (opt.topology == "string")
    {
        for (uint32_t l = 0; l < opt.lines; ++l)
        {
            for (uint32_t h = 0; h <= opt.hops; ++h)
            {
                places.emplace_back(h * opt.spacing, l * opt.lineSpacing, 0);
            }
        }
    }
    else if (opt.topology == "grid")
    {
        for (uint32_t r = 0; r < opt.rows; ++r)
        {
            for (uint32_t c = 0; c < opt.columns; ++c)
            {
                places.emplace_back(c * opt.spacing, r * opt.spacing, 0);
            }
        }
    }
    else if (opt.topology == "cell")
    {
        places.emplace_back(0, 0, 0);
        for (uint32_t s = 0; s < opt.stations; ++s)
        {
            const double a = 2 * M_PI * s / opt.stations;
            places.emplace_back(std::cos(a), std::sin(a), 0);
        }
    }
    else
    {
        NS_FATAL_ERROR("unknown topology " << opt.topology);
    }
    return places;
}

/// The channel and the receiver's thresholds of one realization of the capture rule.
void
SetUpRadio(YansWifiPhyHelper& phy, const NodeContainer& nodes)
{
    constexpr double txDbm = 16.0206;
    Ptr<YansWifiChannel> channel = CreateObject<YansWifiChannel>();
    channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
    phy.Set("TxPowerStart", DoubleValue(txDbm));
    phy.Set("TxPowerEnd", DoubleValue(txDbm));
    phy.SetErrorRateModel("ns3::NistErrorRateModel");
    if (opt.rule == "disc")
    {
        // DSSS decodes at 0 dB of SINR, thanks to its spreading, so the overlap must be far stronger to kill.
        const bool dsss = opt.standard == "11b";
        const double sensedDbm = dsss ? -50.0 : -70.2;
        Ptr<MatrixPropagationLossModel> loss = CreateObject<MatrixPropagationLossModel>();
        loss->SetDefaultLoss(1000);
        for (uint32_t i = 0; i < nodes.GetN(); ++i)
        {
            for (uint32_t j = i + 1; j < nodes.GetN(); ++j)
            {
                Ptr<MobilityModel> a = nodes.Get(i)->GetObject<MobilityModel>();
                Ptr<MobilityModel> b = nodes.Get(j)->GetObject<MobilityModel>();
                const double d = a->GetDistanceFrom(b);
                if (d <= 250)
                {
                    loss->SetLoss(a, b, txDbm - decodableDbm);
                }
                else if (d <= 550)
                {
                    loss->SetLoss(a, b, txDbm - sensedDbm);
                }
            }
        }
        channel->SetPropagationLossModel(loss);
        if (dsss)
        {
            phy.SetPreambleDetectionModel("ns3::NeighbourPreambleDetectionModel");
        }
        else
        {
            phy.SetPreambleDetectionModel("ns3::ThresholdPreambleDetectionModel", "MinimumRssi", DoubleValue(-70.1), "Threshold",
                                          DoubleValue(4));
        }
        phy.Set("CcaEdThreshold", DoubleValue(-71.2));
    }
    else if (opt.rule == "lock")
    {
        if (opt.standard == "11b")
        {
            NS_FATAL_ERROR("lock is for OFDM: DSSS decodes what comes from two hops away");
        }
        Ptr<LogDistancePropagationLossModel> loss = CreateObject<LogDistancePropagationLossModel>();
        loss->SetAttribute("Exponent", DoubleValue(3));
        loss->SetAttribute("ReferenceDistance", DoubleValue(1));
        loss->SetAttribute("ReferenceLoss", DoubleValue(46.6777));
        channel->SetPropagationLossModel(loss);
        phy.SetPreambleDetectionModel("ns3::ThresholdPreambleDetectionModel", "MinimumRssi", DoubleValue(-101), "Threshold",
                                      DoubleValue(4));
        phy.Set("CcaEdThreshold", DoubleValue(-90.8));
    }
    else
    {
        NS_FATAL_ERROR("unknown rule " << opt.rule);
    }
    phy.SetChannel(channel);
}

} // namespace

int
main(int argc, char* argv[])
{
    const auto started = std::chrono::steady_clock::now();
    CommandLine cmd(__FILE__);
    cmd.AddValue("topology", "string, grid or cell", opt.topology);
    cmd.AddValue("hops", "hops of a string", opt.hops);
    cmd.AddValue("lines", "strings side by side", opt.lines);
    cmd.AddValue("columns", "columns of a grid", opt.columns);
    cmd.AddValue("rows", "rows of a grid", opt.rows);
    cmd.AddValue("stations", "senders of a cell", opt.stations);
    cmd.AddValue("spacing", "metres between neighbours", opt.spacing);
    cmd.AddValue("line_spacing", "metres between strings", opt.lineSpacing);
    cmd.AddValue("standard", "11a or 11b", opt.standard);
    cmd.AddValue("rate", "data rate in Mb/s", opt.rate);
    cmd.AddValue("rule", "disc or lock", opt.rule);
    cmd.AddValue("rts", "RTS and CTS before every frame", opt.rts);
    cmd.AddValue("internet", "TCP comes from a host behind node 0", opt.internet);
    cmd.AddValue("calls", "calls", opt.calls);
    cmd.AddValue("tcp", "TCP flows", opt.tcp);
    cmd.AddValue("burst", "packets in a burst", opt.burst);
    cmd.AddValue("burst_kbps", "rate of the bursts, of IP packets", opt.burstKbps);
    cmd.AddValue("burst_packet", "bytes of an IP packet of the bursts", opt.burstPacket);
    cmd.AddValue("cbr_kbps", "rate of each CBR flow, of UDP payload", opt.cbrKbps);
    cmd.AddValue("cbr_payload", "UDP payload of a CBR packet", opt.cbrPayload);
    cmd.AddValue("mss", "MSS in bytes", opt.mss);
    cmd.AddValue("delack", "segments per ACK", opt.delack);
    cmd.AddValue("delack_ms", "longest delay of an ACK", opt.delackMs);
    cmd.AddValue("minrto", "shortest RTO in seconds", opt.minRto);
    cmd.AddValue("buffer", "send and receive buffer in bytes", opt.buffer);
    cmd.AddValue("duration", "simulated seconds", opt.duration);
    cmd.AddValue("warmup", "seconds that no statistic counts", opt.warmup);
    cmd.AddValue("seed", "run number of the random streams", opt.seed);
    cmd.Parse(argc, argv);

    RngSeedManager::SetRun(opt.seed);
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(opt.rts ? 0 : 65535));
    Config::SetDefault("ns3::WifiRemoteStationManager::MaxSsrc", UintegerValue(7));
    Config::SetDefault("ns3::WifiRemoteStationManager::MaxSlrc", UintegerValue(4));
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(QueueSize("50p")));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(100000)));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(opt.minRto)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(opt.mss));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(opt.delack));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(opt.delackMs)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(opt.buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(opt.buffer));

    const double neighbour = opt.rule == "lock" ? 46.0 : opt.spacing;
    opt.lineSpacing *= neighbour / opt.spacing;
    opt.spacing = neighbour;
    const std::vector<Vector> places = Places();
    NodeContainer nodes;
    nodes.Create(places.size());
    Ptr<ListPositionAllocator> positions = CreateObject<ListPositionAllocator>();
    for (const Vector& p : places)
    {
        positions->Add(p);
    }
    MobilityHelper mobility;
    mobility.SetPositionAllocator(positions);
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(nodes);

    // ControlMode is the rate of RTS alone. ACK and CTS answer at the fastest mandatory rate that is no faster than the
    // frame that they answer: an ACK goes at 12 Mb/s in 802.11a and at 2 Mb/s in 802.11b.
    WifiHelper wifi;
    YansWifiPhyHelper phy;
    if (opt.standard == "11a")
    {
        wifi.SetStandard(WIFI_STANDARD_80211a);
        wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue("OfdmRate" + opt.rate + "Mbps"), "ControlMode",
                                     StringValue("OfdmRate" + opt.rate + "Mbps"));
    }
    else
    {
        wifi.SetStandard(WIFI_STANDARD_80211b);
        wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue("DsssRate" + opt.rate + "Mbps"), "ControlMode",
                                     StringValue("DsssRate" + opt.rate + "Mbps"));
    }
    SetUpRadio(phy, nodes);
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac");
    NetDeviceContainer devices = wifi.Install(phy, mac, nodes);

    // IPv6 stays on: NeighborCacheHelper of 3.37 needs it.
    InternetStackHelper stack;
    Ipv4StaticRoutingHelper routing;
    stack.SetRoutingHelper(routing);
    stack.Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.1.0.0", "255.255.0.0");
    Ipv4InterfaceContainer wlan = addresses.Assign(devices);
    NeighborCacheHelper neighbours;
    neighbours.PopulateNeighborCache();

    Ptr<Node> host;
    Ipv4Address hostAddress;
    if (opt.internet)
    {
        NodeContainer wired;
        wired.Add(nodes.Get(0));
        wired.Create(1);
        host = wired.Get(1);
        stack.Install(host);
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
        wire.SetChannelAttribute("Delay", StringValue("30ms"));
        wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));
        NetDeviceContainer ends = wire.Install(wired);
        Ipv4AddressHelper outside;
        outside.SetBase("10.2.0.0", "255.255.255.0");
        hostAddress = outside.Assign(ends).GetAddress(1);
        TrafficControlHelper().Uninstall(ends);
        routing.GetStaticRouting(host->GetObject<Ipv4>())->SetDefaultRoute(Ipv4Address("10.2.0.1"), 1);
    }
    TrafficControlHelper().Uninstall(devices);

    auto route = [&](uint32_t from, Ipv4Address to, uint32_t next) {
        Ptr<Ipv4> ipv4 = nodes.Get(from)->GetObject<Ipv4>();
        routing.GetStaticRouting(ipv4)->AddHostRouteTo(to, wlan.GetAddress(next), ipv4->GetInterfaceForDevice(devices.Get(from)));
    };
    // Along a line of nodes with consecutive numbers, both ways.
    auto line = [&](uint32_t first, uint32_t last) {
        for (uint32_t i = first; i <= last; ++i)
        {
            for (uint32_t j = first; j <= last; ++j)
            {
                if (j != i)
                {
                    route(i, wlan.GetAddress(j), j > i ? i + 1 : i - 1);
                }
            }
        }
    };
    if (opt.topology == "string")
    {
        for (uint32_t l = 0; l < opt.lines; ++l)
        {
            line(l * (opt.hops + 1), l * (opt.hops + 1) + opt.hops);
        }
        for (uint32_t i = 1; opt.internet && i <= opt.hops; ++i)
        {
            route(i, hostAddress, i - 1);
        }
    }
    else if (opt.topology == "grid")
    {
        for (uint32_t r = 0; r < opt.rows; ++r)
        {
            line(r * opt.columns, r * opt.columns + opt.columns - 1);
        }
    }

    const uint32_t last = opt.topology == "string" ? opt.hops : nodes.GetN() - 1;
    for (uint32_t c = 0; c < opt.calls; ++c)
    {
        const std::string name = "call-" + std::to_string(c);
        AddStream(name + "-down", nodes.Get(0), nodes.Get(last), wlan.GetAddress(last), 32, 1, 0.02);
        AddStream(name + "-up", nodes.Get(last), nodes.Get(0), wlan.GetAddress(0), 32, 1, 0.02);
    }
    if (opt.burst > 0)
    {
        const double every = opt.burst * opt.burstPacket * 8.0 / (opt.burstKbps * 1e3);
        AddStream("burst", nodes.Get(0), nodes.Get(last), wlan.GetAddress(last), opt.burstPacket - 28, opt.burst, every);
    }
    if (opt.cbrKbps > 0)
    {
        const double every = opt.cbrPayload * 8.0 / (opt.cbrKbps * 1e3);
        if (opt.topology == "grid")
        {
            for (uint32_t r = 0; r < opt.rows; ++r)
            {
                const uint32_t a = r * opt.columns;
                const uint32_t b = a + opt.columns - 1;
                AddStream("cbr-" + std::to_string(r), nodes.Get(a), nodes.Get(b), wlan.GetAddress(b), opt.cbrPayload, 1, every);
            }
        }
        else
        {
            for (uint32_t s = 1; s <= opt.stations; ++s)
            {
                AddStream("cbr-" + std::to_string(s), nodes.Get(s), nodes.Get(0), wlan.GetAddress(0), opt.cbrPayload, 1, every);
            }
        }
    }
    for (uint32_t k = 0; k < opt.tcp; ++k)
    {
        const uint32_t first = (k % opt.lines) * (opt.hops + 1);
        const uint32_t end = first + opt.hops;
        AddTransfer("tcp-" + std::to_string(k), opt.internet ? host : nodes.Get(first), nodes.Get(end), wlan.GetAddress(end));
    }

    Simulator::Stop(Seconds(opt.duration));
    const auto running = std::chrono::steady_clock::now();
    Simulator::Run();
    const auto ended = std::chrono::steady_clock::now();

    const double span = opt.duration - opt.warmup;
    for (const auto& s : streams)
    {
        std::printf("udp %s %lu %.6f", s->name.c_str(), static_cast<unsigned long>(s->sent), s->bytes * 8e-6 / span);
        for (double d : s->delaysUs)
        {
            std::printf(" %.1f", d);
        }
        std::printf("\n");
    }
    for (const auto& t : transfers)
    {
        std::printf("tcp %s %.6f %.6f\n", t->name.c_str(), (t->sink->GetTotalRx() - t->received) * 8e-6 / span, t->sentBytes * 8e-6 / span);
    }
    auto ms = [](auto a, auto b) {
        return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(b - a).count());
    };
    std::printf("wall_ms %ld %ld\n", ms(running, ended), ms(started, ended));
    Simulator::Destroy();
    return 0;
}
