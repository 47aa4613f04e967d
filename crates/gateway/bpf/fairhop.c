// SPDX-License-Identifier: MIT
//
// What the kernel does with packets at a gateway: programs for `tc` hooks.
//
//   fairhop_to_mesh    egress of the mesh's interface      digest, clamp, pacing
//   fairhop_from_mesh  ingress of the mesh's interface     digest, clamp
//   fairhop_to_wired   egress of the wired interface       pacing of ACKs that came out of the mesh
//   fairhop_park       egress of the way in to the park    puts packets off
//   fairhop_unpark     ingress of the way out of the park  sends them to fairhop_to_mesh again
//
// The reference is crates/control: `digest` (what is read), `window` (the clamp), `pacer::departure` (when a packet may
// leave), `raw` (layout of digests and clamps). A test runs generated packets through both. All structs here have a mirror
// in src/datapath/layout.rs and change together with it.
//
//   Ethernet  dst 0..6, src 6..12, type 12..14; each VLAN tag adds 4 (type at its end); PPPoE adds 8 (protocol at its end)
//   IPv4      length 2..4, fragment 6..8, ttl 8, protocol 9, source 12..16, destination 16..20
//   IPv6      payload length 4..6, next header 6, hop limit 7, source 8..24, destination 24..40
//   TCP       ports 0..4, seq 4..8, ack 8..12, header length 12 (high nibble, in words), flags 13, window 14..16, sum 16..18
//   UDP       ports 0..4, length 4..6, sum 6..8
//
// Left alone: fragments, more than eight extension headers of IPv6, whatever is cut or no IP. Nothing is dropped, except
// what finds no place in the pacer, and interactive packets that would be late.
#include <linux/bpf.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;

#define SEC(name) __attribute__((section(name), used))
#define ALIGNED __attribute__((aligned(8)))
#define INLINE static __attribute__((always_inline)) inline
#define UINT(name, value) int(*name)[value]
#define TYPE(name, value) value *name
// Keeps the compiler from using what it knows of a value, so that the checks below are in the code that the kernel verifies.
#define OPAQUE(value) asm volatile("" : "+r"(value))
// Keeps the compiler from moving stores across.
#define BARRIER() asm volatile("" ::: "memory")

static void *(*const map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)BPF_FUNC_map_update_elem;
static long (*const map_delete)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static u64 (*const ktime)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*const load_bytes)(const struct __sk_buff *skb, u32 at, void *to, u32 length) = (void *)BPF_FUNC_skb_load_bytes;
static long (*const store_bytes)(struct __sk_buff *skb, u32 at, const void *from, u32 length, u64 flags) = (void *)BPF_FUNC_skb_store_bytes;
static long (*const replace_sum)(struct __sk_buff *skb, u32 at, u64 from, u64 to, u64 flags) = (void *)BPF_FUNC_l4_csum_replace;
static void *(*const ring_reserve)(void *ring, u64 size, u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*const ring_submit)(void *entry, u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static long (*const redirect)(u32 interface, u64 flags) = (void *)BPF_FUNC_redirect;
static long (*const change_head)(struct __sk_buff *skb, u32 length, u64 flags) = (void *)BPF_FUNC_skb_change_head;
static void (*const lock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_lock;
static void (*const unlock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_unlock;

enum { PASS = -1, DROP = 2 };
enum { TO_MESH, FROM_MESH };
enum { KIND_OTHER, KIND_TCP, KIND_RTP, KIND_RTCP, KIND_UDP };
enum { PACING_OFF, PACING_DEPARTURES, PACING_CLASSES, PACING_POLLING };
enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
enum { TCP = 6, UDP = 17 };
// Two fillers before timestamps, which most segments have.
enum { USUAL_OPTIONS = 0x0101080a };
enum { MAX_EXTENSIONS = 8, RTCP_BYTES = 256, MAX_OPENINGS = 32, MAX_SCALE = 14, DEFAULT_MSS = 536 };
// Minor numbers of classes: see src/datapath/queues.rs and orders.rs.
enum { CLASS_ACKS = 2, CLASS_INTERACTIVE = 0x10, CLASS_SHARED = 0x100, CLASS_LANE = 0x101, LANES = 16 };

#define NONE (~0ULL)
#define NO_LIMIT (~0U)
#define TOO_EARLY (~1ULL)
#define SECOND 1000000000ULL
#define URGENT_BURST (SECOND / 10)
#define MAX_URGENT_WAIT (SECOND * 15 / 100)
#define OPEN_FOR (SECOND / 1000)
// Unit of `waited` of digests: 2^20 ns.
#define WAITED_SHIFT 20
#define MAX_HELD (SECOND / 2)
// Departures are fixed that long ahead, and packets that would leave later parked for so long. What is fixed is more than a
// stay, so that the pacer never runs dry; a new rate takes effect as soon.
#define HORIZON (SECOND * 15 / 100)
#define STAY (SECOND / 20)
// A stay with what a timer may be late.
#define PARK_EPOCH (STAY * 6 / 5)

// Set before the programs are loaded.
const volatile u32 pacing = PACING_OFF;
// The programs decide when packets leave.
#define HAS_TIMES (pacing == PACING_DEPARTURES || pacing == PACING_POLLING)
// No queue behind the programs keeps these times: packets leave when they pass, and ACKs are parked as well as data.
#define IS_POLLING (pacing == PACING_POLLING)
const volatile u32 mesh_is_ip = 0;
const volatile u32 wired_is_ip = 0;
const volatile u32 mesh_index = 0;
// One of so many packets of paced flows has a digest.
const volatile u32 sample = 1;
// Major number of the queues' handles, in its place.
const volatile u32 mesh_major = 0;
// Places of a table of flows, less one, and numbers for its hash that nobody outside can know.
const volatile u32 place_mask = 32767;
const volatile u32 seeds[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
// The two ends of the park; zero without one.
const volatile u32 park_index = 0;
const volatile u32 unpark_index = 0;
// Packets that are parked at most.
const volatile u32 park_packets = 200;
// Headers are read in place. Tests turn it off: then all go the way of packets whose headers are in fragments.
const volatile u32 in_place = 1;
// Tests set the time.
const volatile u32 has_test_clock = 0;

struct digest {
	u64 at;
	u8 source[16];
	u8 destination[16];
	u32 bytes;
	u16 source_port;
	u16 destination_port;
	u8 direction;
	u8 protocol;
	u8 ttl;
	u8 traffic_class;
	u8 payload;
	u8 present;
	u8 octets[4];
	u16 waited;
	u16 halves[2];
	u32 words[10];
};

struct key {
	u8 mesh[16];
	u8 wired[16];
	u16 mesh_port;
	u16 wired_port;
	u8 protocol;
	u8 zero[3];
} ALIGNED;

struct clamp {
	u32 edge;
	u16 mss;
	u8 scale;
	u8 present;
};
enum { HAS_EDGE = 1, HAS_SCALE = 2 };

struct offer {
	u16 mss;
	u8 scale;
	u8 present;
};
enum { OFFERS = 1, OFFERS_SCALE = 2 };

struct flow {
	struct clamp from_wired;
	struct clamp from_mesh;
	struct offer wired;
	struct offer mesh;
};

// A place in a table of flows. `mark` has the protocol in its low eight bits, and above them the time of the last use in units of
// 2^22 ns (4 ms), which repeats after 20 h. It is zero if no flow has ever been there.
struct place {
	u64 addresses[4];
	u32 ports;
	u32 mark;
};

struct treatment {
	u64 rate;
	u32 window;
	u16 class;
	u8 datagrams;
	u8 is_listed;
};
// The last is elastic, without packets that may be sound: those of `SOUND_BYTES` of `control::observer`.
enum { FREE, ELASTIC, INTERACTIVE, BESIDE_SOUND };
enum { SOUND_FIRST = 150, SOUND_END = 600 };

// In the table that the daemon writes. Its marks have no time.
struct treated {
	struct place place;
	struct treatment treatment;
	u64 zero;
};
enum { TREATED_PLACES = 8192 };

struct orders {
	u64 expires;
	u64 down;
	u64 interactive;
	u64 up_acks;
	u64 down_acks;
	u64 others_rate;
	u64 max_wait;
	u64 max_ack_wait;
	u64 gate_period;
	// When polling, time between two parked packets that pass again. What is early by two of them leaves.
	u64 visit;
	u64 openings[MAX_OPENINGS];
	u32 opening_count;
	u32 others_window;
	u32 paces_data;
	u32 treatments;
	// Which time of paced ACKs this is, into the mesh and out of it: see `depart_ack`.
	u32 ack_epochs[2];
};

struct spacing {
	u64 at;
	u64 bytes;
};

// How many packets are parked. None passes less often than once in an epoch, so that those that have gone otherwise are known
// after two: `entered` counts the passes in this epoch and the one before.
struct park {
	u32 packets;
	u32 epoch;
	u32 entered[2];
};

struct schedule {
	struct bpf_spin_lock lock;
	u32 present;
	struct spacing aggregate;
	struct spacing urgent;
	struct spacing acks;
	u64 last;
	u64 last_ack;
	// Data, ACKs.
	struct park parks[2];
};
enum { HAS_AGGREGATE = 1, HAS_URGENT = 2, HAS_ACKS = 4 };

struct known {
	struct place place;
	struct flow flow;
};

// Of a flow, the times at which so many parked packets came are known, and so many ACKs wait.
enum { CAME = 64, MAX_ACKS = 16 };
struct lane {
	struct spacing data;
	// Departure of the last packet with data.
	u64 left;
	// Parked packets have numbers: that of the first one, and the next to be given. When the first one was last seen.
	u16 first;
	u16 next;
	u32 present;
	u64 seen;
	// What was acknowledged, into the mesh and out of it, and in which epochs; zero for none.
	u32 acked[2];
	u32 ack_epochs[2];
	// Polling: when parked packets came, by their numbers, in the unit of `waited`.
	u16 came[CAME];
};
// IS_HALF, the highest bit: the last packet was the first of a pair.
enum { HAS_DATA = 1, IS_HALF = 2 };
// No step of an acknowledgment is larger, as no window is (65,535 << 14, RFC 7323 section 2.3).
enum { MAX_STEP = 1 << 30 };

struct paced {
	struct place place;
	struct lane lane;
};

struct count {
	u64 packets;
	u64 bytes;
};
enum { VOICE, TCP_DATA, TCP_CONTROL, PACED_UDP, OTHER, CLASSES };

struct counters {
	struct count by_class[2][CLASSES];
	u64 digests;
	u64 digests_lost;
	u64 clamped;
	u64 dropped;
	u64 unparsed;
	u64 unlimited;
	u64 super_packets;
	u64 flows_refused;
};

// What is known of a packet while it is handled. Too large for the stack.
struct scratch {
	struct digest digest;
	struct key key;
	struct flow flow;
	// Of a packet that is parked.
	u16 number;
	// Where the reading of RTCP stands: the next part, the next block of the current part, the end of that.
	u32 rtcp_at;
	u32 rtcp_block;
	u32 rtcp_part_end;
	// The transport header and what follows it; larger than what is read, so that masks keep offsets inside.
	u8 transport[8 + 2 * RTCP_BYTES] ALIGNED;
};

struct {
	UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct scratch);
} scratches SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct counters);
} counts SEC(".maps");

// Two sets of orders; `active` says which one is in force, so that none is read while it is being written.
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 2);
	TYPE(key, u32);
	TYPE(value, struct orders);
} orders SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u32);
} active SEC(".maps");

// Tables of flows: see `find`. The flag makes the places begin at a line of the cache.
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(map_flags, BPF_F_MMAPABLE);
	UINT(max_entries, TREATED_PLACES);
	TYPE(key, u32);
	TYPE(value, struct treated);
} treatments SEC(".maps");

// Flows whose SYNs have been seen. They become known flows with their first segment that is no SYN: a flood of SYNs fills
// this map only. As a map of the kernel, a look-up costs some 300 instructions: it is for flows that begin.
struct {
	UINT(type, BPF_MAP_TYPE_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, struct key);
	TYPE(value, struct flow);
} opening SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(map_flags, BPF_F_MMAPABLE);
	UINT(max_entries, 32768);
	TYPE(key, u32);
	TYPE(value, struct known);
} flows SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(map_flags, BPF_F_MMAPABLE);
	UINT(max_entries, 32768);
	TYPE(key, u32);
	TYPE(value, struct paced);
} lanes SEC(".maps");

// Held while a flow gets its place.
struct adding {
	struct bpf_spin_lock lock;
	u32 zero;
};

struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct adding);
} adding SEC(".maps");

// Into the mesh, and out of it.
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 2);
	TYPE(key, u32);
	TYPE(value, struct schedule);
} schedules SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_RINGBUF);
	UINT(max_entries, 1 << 21);
} digests SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} test_clock SEC(".maps");

// Words of memory that has other types.
typedef u16 __attribute__((may_alias)) any16;
typedef u32 __attribute__((may_alias)) any32;
typedef u64 __attribute__((may_alias)) any64;

#ifdef WIDE
// Little-endian processors with kernels that let programs read words at any address of a packet. Copying a header byte by byte takes
// several times as many instructions. Arrays on the stack have to be aligned even there.

INLINE u16 be16(const u8 *bytes)
{
	return __builtin_bswap16(*(const any16 *)bytes);
}

INLINE u32 be32(const u8 *bytes)
{
	return __builtin_bswap32(*(const any32 *)bytes);
}

// Copies `length` bytes, a constant.
INLINE void copy(u8 *to, const u8 *from, u32 length)
{
	u32 at = 0;

#pragma unroll
	for (int word = 0; word < 5; word++, at += 8) {
		if (at + 8 > length)
			break;
		*(any64 *)(to + at) = *(const any64 *)(from + at);
	}
	if (length & 4) {
		*(any32 *)(to + at) = *(const any32 *)(from + at);
		at += 4;
	}
	if (length & 2) {
		*(any16 *)(to + at) = *(const any16 *)(from + at);
		at += 2;
	}
	if (length & 1)
		to[at] = from[at];
}
#else
INLINE u16 be16(const u8 *bytes)
{
	return (u16)bytes[0] << 8 | bytes[1];
}

INLINE u32 be32(const u8 *bytes)
{
	return (u32)bytes[0] << 24 | (u32)bytes[1] << 16 | (u32)bytes[2] << 8 | bytes[3];
}

INLINE void copy(u8 *to, const u8 *from, u32 length)
{
	__builtin_memcpy(to, from, length);
}
#endif

INLINE u32 min32(u32 a, u32 b)
{
	return a < b ? a : b;
}

INLINE u64 min64(u64 a, u64 b)
{
	return a < b ? a : b;
}

INLINE u64 max64(u64 a, u64 b)
{
	return a > b ? a : b;
}

INLINE u64 now(void)
{
	if (has_test_clock) {
		u32 first = 0;
		u64 *time = map_lookup(&test_clock, &first);

		return time ? *time : 0;
	}
	return ktime();
}

INLINE struct orders *orders_at(u64 time)
{
	u32 first = 0;
	u32 *which = map_lookup(&active, &first);
	struct orders *found;
	u32 place;

	if (!which)
		return 0;
	place = *which;
	found = map_lookup(&orders, &place);
	return found && time < found->expires ? found : 0;
}

// ---- Parsing ----

// A length for `load_bytes` from 1 to `mask` + 1. Verifiers before 6.4 forget both bounds of a value that was checked and then
// went to the stack. They keep those of this arithmetic, which stands just before the call.
INLINE u32 verified(u32 length, u32 mask)
{
	length -= 1;
	OPAQUE(length);
	return (length & mask) + 1;
}

// The `length` bytes of a packet from `at` on, if they are there in one piece. Reading them there saves a fifth of a run, which
// otherwise calls `load_bytes` three times. The mask is for the verifier: no header begins so far inside.
INLINE const u8 *piece(struct __sk_buff *skb, u32 at, u32 length)
{
	const u8 *end = (const u8 *)(long)skb->data_end, *from = (const u8 *)(long)skb->data;

	if (!in_place)
		return 0;
	OPAQUE(at);
	from += at & 0x7fff;
	return from + length > end ? 0 : from;
}

// The same bytes, if the packet has them; `room` is for those in several pieces.
INLINE const u8 *bytes_at(struct __sk_buff *skb, u32 at, u8 *room, u32 length)
{
	const u8 *from = piece(skb, at, length);

	if (from)
		return from;
	return load_bytes(skb, at, room, length) < 0 ? 0 : room;
}

// Offset of the IP header, or -1.
INLINE s32 find_ip(struct __sk_buff *skb, u32 is_ip, u8 *version)
{
	u8 room[8] ALIGNED;
	const u8 *bytes;
	u32 at = 14;
	u16 type;

	if (is_ip) {
		bytes = bytes_at(skb, 0, room, 1);
		if (!bytes)
			return -1;
		*version = bytes[0] >> 4;
		return 0;
	}
	bytes = bytes_at(skb, 12, room, 2);
	if (!bytes)
		return -1;
	type = be16(bytes);
#pragma unroll
	for (int tags = 0; tags < 2; tags++) {
		if (type != 0x8100 && type != 0x88a8 && type != 0x9100)
			break;
		bytes = bytes_at(skb, at + 2, room, 2);
		if (!bytes)
			return -1;
		type = be16(bytes);
		at += 4;
	}
	if (type == 0x8864) {
		// Version and type 1, code 0: data of a session (RFC 2516).
		bytes = bytes_at(skb, at, room, 8);
		if (!bytes || bytes[0] != 0x11 || bytes[1] != 0)
			return -1;
		type = be16(bytes + 6) == 0x0021 ? 0x0800 : be16(bytes + 6) == 0x0057 ? 0x86dd : 0;
		at += 8;
	}
	*version = type == 0x0800 ? 4 : type == 0x86dd ? 6 : 0;
	return (s32)at;
}

// Offset of the transport header from the IP header, or -1.
INLINE s32 read_ip(struct __sk_buff *skb, u32 at, u8 version, struct digest *digest)
{
	u8 room[40] ALIGNED;
	const u8 *head;
	u32 transport;

	if (version == 4) {
		head = bytes_at(skb, at, room, 20);
		if (!head || head[0] >> 4 != 4)
			return -1;
		transport = (head[0] & 15) * 4;
		digest->bytes = be16(head + 2);
		if (transport < 20 || digest->bytes < transport || be16(head + 6) & 0x3fff)
			return -1;
		// RFC 4291, section 2.5.5.2.
		__builtin_memset(digest->source + 10, 0xff, 2);
		copy(digest->source + 12, head + 12, 4);
		__builtin_memset(digest->destination + 10, 0xff, 2);
		copy(digest->destination + 12, head + 16, 4);
		digest->protocol = head[9];
		digest->ttl = head[8];
		digest->traffic_class = head[1];
		return (s32)transport;
	}
	if (version != 6)
		return -1;
	head = bytes_at(skb, at, room, 40);
	if (!head || head[0] >> 4 != 6)
		return -1;
	transport = 40;
	digest->bytes = 40 + be16(head + 4);
	copy(digest->source, head + 8, 16);
	copy(digest->destination, head + 24, 16);
	digest->protocol = head[6];
	digest->ttl = head[7];
	digest->traffic_class = head[0] << 4 | head[1] >> 4;
	for (int extensions = 0; extensions <= MAX_EXTENSIONS; extensions++) {
		const u8 *next;

		// Not hop-by-hop, routing or destination options: the transport header, or a fragment.
		if (digest->protocol != 0 && digest->protocol != 43 && digest->protocol != 60)
			return digest->protocol == 44 || transport > digest->bytes ? -1 : (s32)transport;
		next = bytes_at(skb, at + transport, room, 2);
		if (!next)
			return -1;
		digest->protocol = next[0];
		transport += 8 + 8 * (u32)next[1];
	}
	return -1;
}

// Options of TCP in the scratch up to byte `end` of the header. Not inlined, so that the kernel verifies its loop once and not
// for each way to it; the same holds for `read_rtcp_part`.
__attribute__((noinline)) int read_options(u32 end)
{
	u32 first = 0, at = 20;
	struct scratch *scratch = map_lookup(&scratches, &first);
	struct digest *digest;

	if (!scratch || end > 60)
		return 0;
	digest = &scratch->digest;
	for (int step = 0; step < 40; step++) {
		const u8 *option;
		u32 size;

		if (at >= end)
			break;
		OPAQUE(at);
		at &= 63;
		option = scratch->transport + at;
		if (option[0] == 0)
			break;
		if (option[0] == 1) {
			at++;
			continue;
		}
		if (at + 1 >= end)
			break;
		size = option[1];
		if (size < 2 || at + size > end)
			break;
		if (option[0] == 2 && size == 4) {
			digest->present |= 1;
			digest->halves[1] = be16(option + 2);
		} else if (option[0] == 3 && size == 3) {
			digest->present |= 2;
			digest->octets[1] = min32(option[2], MAX_SCALE);
		} else if (option[0] == 4 && size == 2) {
			digest->present |= 4;
		} else if (option[0] == 5 && size > 2) {
			digest->present |= 8;
		} else if (option[0] == 8 && size == 10) {
			digest->present |= 16;
			digest->words[3] = be32(option + 2);
			digest->words[4] = be32(option + 6);
		}
		at += size;
	}
	return 0;
}

INLINE void read_ports(const u8 *transport, struct digest *digest)
{
	digest->source_port = be16(transport);
	digest->destination_port = be16(transport + 2);
}

// The first 20 bytes of a segment of `bytes`; the length of its header, or zero.
INLINE u32 read_head(const u8 *tcp, u32 bytes, struct digest *digest)
{
	u32 header = (tcp[12] >> 4) * 4;

	read_ports(tcp, digest);
	if (header < 20 || header > bytes)
		return 0;
	digest->payload = KIND_TCP;
	digest->octets[0] = tcp[13];
	digest->halves[0] = be16(tcp + 14);
	digest->words[0] = be32(tcp + 4);
	digest->words[1] = be32(tcp + 8);
	digest->words[2] = bytes - header;
	return header;
}

// A segment of `bytes`, of which the packet has `length`. Zero if it cannot be read.
INLINE u32 read_tcp(struct __sk_buff *skb, u32 at, struct scratch *scratch, u32 length, u32 bytes)
{
	struct digest *digest = &scratch->digest;
	const u8 *tcp = piece(skb, at, 32);
	u32 header, read;

	// The usual headers are read in place: with timestamps, and without options.
	if (tcp && tcp[12] >> 4 == 8 && be32(tcp + 20) == USUAL_OPTIONS) {
		if (read_head(tcp, bytes, digest)) {
			digest->present = 16;
			digest->words[3] = be32(tcp + 24);
			digest->words[4] = be32(tcp + 28);
		}
		return 1;
	}
	tcp = piece(skb, at, 20);
	if (tcp && tcp[12] >> 4 == 5) {
		read_head(tcp, bytes, digest);
		return 1;
	}
	tcp = scratch->transport;
	read = verified(min32(60, length), 63);
	if (load_bytes(skb, at, scratch->transport, read) < 0)
		return 0;
	if (read < 20) {
		read_ports(tcp, digest);
		return 1;
	}
	header = min32(read_head(tcp, bytes, digest), read);
	if (header > 20)
		read_options(header);
	return 1;
}

INLINE void read_report(const u8 *block, struct digest *digest)
{
	digest->present |= 2;
	digest->octets[0] = block[4];
	digest->words[2] = be32(block);
	digest->words[3] = (u32)((s32)(be32(block + 4) << 8) >> 8);
	digest->words[4] = be32(block + 8);
	digest->words[5] = be32(block + 12);
	digest->words[6] = be32(block + 16);
	digest->words[7] = be32(block + 20);
}

// One part of a compound RTCP packet, or one block of an extended report (RFC 3611). Where it stands is in the scratch, so
// that the kernel verifies one step and not all ways through a packet. Zero at the end.
__attribute__((noinline)) int read_rtcp_part(u32 end)
{
	u32 first = 0, at, block, part_end, length;
	struct scratch *scratch = map_lookup(&scratches, &first);
	struct digest *digest;
	const u8 *head;

	if (!scratch || end > RTCP_BYTES)
		return 0;
	digest = &scratch->digest;
	at = scratch->rtcp_at;
	block = scratch->rtcp_block;
	part_end = scratch->rtcp_part_end;
	if (block) {
		scratch->rtcp_block = 0;
		if (block + 4 > part_end)
			return 1;
		head = scratch->transport + 8 + (block & 255);
		length = 4 * ((u32)be16(head + 2) + 1);
		if (head[0] != 7 || length != 36) {
			scratch->rtcp_block = block + length;
		} else if (block + 36 <= part_end) {
			digest->present |= 4;
			digest->words[8] = be32(head + 4);
			digest->octets[1] = head[8];
			digest->octets[2] = head[9];
			digest->octets[3] = head[27];
		}
		return 1;
	}
	if (at + 4 > end)
		return 0;
	head = scratch->transport + 8 + (at & 255);
	if (head[0] >> 6 != 2)
		return 0;
	length = 4 * ((u32)be16(head + 2) + 1);
	part_end = min32(at + length, end);
	scratch->rtcp_part_end = part_end;
	scratch->rtcp_at = at + length;
	if (head[1] == 200) {
		digest->present &= ~1;
		digest->words[1] = 0;
		if (at + 14 <= part_end) {
			digest->present |= 1;
			digest->words[1] = be32(head + 10);
		}
		if (!(digest->present & 2) && head[0] & 31 && at + 52 <= part_end)
			read_report(head + 28, digest);
	} else if (head[1] == 201) {
		if (!(digest->present & 2) && head[0] & 31 && at + 32 <= part_end)
			read_report(head + 8, digest);
	} else if (head[1] == 205 && (head[0] & 31) == 1) {
		// Generic NACKs (RFC 4585 section 6.2.1): the entries after 12 bytes.
		if (at + 12 <= part_end)
			digest->words[9] += (part_end - at - 12) / 4;
	} else if (head[1] == 207 && !(digest->present & 4)) {
		scratch->rtcp_block = at + 8;
	}
	return 1;
}

// A compound packet (RFC 3550 section 6.1) up to its first invalid part. `end` bytes of it are in the scratch.
INLINE void read_rtcp(struct scratch *scratch, u32 end)
{
	scratch->rtcp_at = 0;
	scratch->rtcp_block = 0;
	scratch->rtcp_part_end = 0;
	for (int part = 0; part < RTCP_BYTES / 4; part++) {
		if (!read_rtcp_part(end))
			break;
	}
}

// The header of a datagram and 12 bytes of its payload, or what there is of them.
INLINE const u8 *udp_head(struct __sk_buff *skb, u32 at, struct scratch *scratch, u32 length)
{
	const u8 *udp = piece(skb, at, 20);
	u32 read;

	if (udp)
		return udp;
	read = verified(min32(20, length), 63);
	return load_bytes(skb, at, scratch->transport, read) < 0 ? 0 : scratch->transport;
}

// A datagram of `bytes`, of which the packet has `length`. Zero if it cannot be read.
INLINE u32 read_udp(struct __sk_buff *skb, u32 at, struct scratch *scratch, u32 length, u32 bytes)
{
	struct digest *digest = &scratch->digest;
	const u8 *udp = udp_head(skb, at, scratch, length), *payload;
	u32 claimed, header, rest;

	if (!udp)
		return 0;
	payload = udp + 8;
	read_ports(udp, digest);
	digest->payload = KIND_UDP;
	if (length < 9)
		return 1;
	claimed = be16(udp + 4);
	// A length of zero is a jumbogram's (RFC 2675), whose length is in the IP header.
	bytes = claimed ? min32(claimed, bytes) : bytes;
	if (bytes < 8)
		return 1;
	bytes -= 8;
	// A message of a TURN channel (RFC 8656 section 12.4), with up to three bytes of padding, carries what follows its four bytes.
	if (payload[0] >> 4 == 4) {
		if (length < 13)
			return 1;
		claimed = be16(payload + 2);
		if (bytes - 4 - claimed > 3)
			return 1;
		bytes = claimed;
		at += 4;
		length -= 4;
		udp = udp_head(skb, at, scratch, length);
		if (!udp)
			return 1;
		payload = udp + 8;
	}
	if (payload[0] >> 6 != 2)
		return 1;
	if (length >= 16 && payload[1] >= 192 && payload[1] <= 223) {
		rest = verified(min32(length - 8, RTCP_BYTES), 2 * RTCP_BYTES - 1);
		if (load_bytes(skb, at + 8, scratch->transport + 8, rest) < 0)
			return 1;
		digest->payload = KIND_RTCP;
		digest->words[0] = be32(scratch->transport + 12);
		read_rtcp(scratch, min32(rest, bytes));
		return 1;
	}
	if (length < 20)
		return 1;
	header = 12 + 4 * (payload[0] & 15);
	if (payload[0] & 16) {
		u8 words[2] ALIGNED;

		header += 4;
		if (load_bytes(skb, at + 8 + header - 2, words, 2) == 0)
			header += 4 * (u32)be16(words);
	}
	if (bytes < header)
		return 1;
	digest->payload = KIND_RTP;
	digest->present = payload[1] >> 7;
	digest->octets[0] = payload[1] & 127;
	digest->halves[0] = be16(payload + 2);
	digest->words[0] = be32(payload + 4);
	digest->words[1] = be32(payload + 8);
	digest->words[2] = bytes - header;
	return 1;
}

// Reads the digest of a packet. Offset of its transport header, or -1 if it has to be left alone.
INLINE s32 read_packet(struct __sk_buff *skb, u32 is_ip, u32 direction, struct scratch *scratch)
{
	struct digest *digest = &scratch->digest;
	u8 version = 0;
	s32 ip = find_ip(skb, is_ip, &version), transport;
	u32 at, length, bytes, is_read;

	if (ip < 0)
		return -1;
	__builtin_memset(digest, 0, sizeof(*digest));
	digest->direction = (u8)direction;
	transport = read_ip(skb, (u32)ip, version, digest);
	if (transport < 0)
		return -1;
	at = (u32)ip + (u32)transport;
	length = skb->len > at ? skb->len - at : 0;
	bytes = digest->bytes - (u32)transport;
	if ((digest->protocol != TCP && digest->protocol != UDP) || length < 4)
		return (s32)at;
	is_read = digest->protocol == TCP ? read_tcp(skb, at, scratch, length, bytes) : read_udp(skb, at, scratch, length, bytes);
	return is_read ? (s32)at : -1;
}

INLINE void set_key(struct scratch *scratch, u32 direction)
{
	struct digest *digest = &scratch->digest;
	struct key *key = &scratch->key;

	__builtin_memset(key->zero, 0, sizeof(key->zero));
	key->protocol = digest->protocol;
	if (direction == TO_MESH) {
		__builtin_memcpy(key->mesh, digest->destination, 16);
		__builtin_memcpy(key->wired, digest->source, 16);
		key->mesh_port = digest->destination_port;
		key->wired_port = digest->source_port;
	} else {
		__builtin_memcpy(key->mesh, digest->source, 16);
		__builtin_memcpy(key->wired, digest->destination, 16);
		key->mesh_port = digest->source_port;
		key->wired_port = digest->destination_port;
	}
}

// ---- Tables of flows ----
//
// Open addressing: a flow is in one of PLACES places from that of its hash on. A look-up takes a quarter of the instructions of one in
// a hash map of the kernel, and usually reads one line of the cache. A new flow that finds no free place gets that of the flow which
// has been silent longest.

enum { PLACES = 8, NO_FLOW = 1 << 8, MARK_TIMES = 1 << 24, MARK_SECOND = 238 };

// NH (RFC 4418, section 5.2): whoever does not know the seeds cannot choose flows that share a place.
INLINE u32 hash_of(struct key *key)
{
	const any32 *words = (const any32 *)key;
	u64 sum = 0;

#pragma unroll
	for (int word = 0; word < 10; word += 2)
		sum += (u64)(words[word] + seeds[word]) * (words[word + 1] + seeds[word + 1]);
	return (u32)((sum ^ sum >> 32) * 0x9e3779b97f4a7c15ULL >> 32);
}

INLINE u32 mark_of(struct key *key, u64 time)
{
	return (u32)(time >> 22) << 8 | key->protocol;
}

INLINE u32 is_at(struct place *place, struct key *key)
{
	const any64 *addresses = (const any64 *)key;

	return place->ports == *(const any32 *)&key->mesh_port && (u8)place->mark == key->protocol && place->addresses[1] == addresses[1] &&
	       place->addresses[3] == addresses[3] && place->addresses[0] == addresses[0] && place->addresses[2] == addresses[2];
}

// The place of a flow.
INLINE struct place *find(void *table, u32 mask, struct key *key, u32 hash)
{
	for (u32 step = 0; step < PLACES; step++) {
		u32 index = (hash + step) & mask;
		struct place *place = map_lookup(table, &index);

		if (!place || !place->mark)
			return 0;
		if (is_at(place, key))
			return place;
	}
	return 0;
}

// The same, of a flow that has a packet now.
INLINE struct place *find_used(void *table, struct key *key, u32 hash, u32 mark)
{
	struct place *place = find(table, place_mask, key, hash);

	if (place)
		place->mark = mark;
	return place;
}

// Gives a flow that has no place the best one of its places, with `bytes` of zeros behind it.
INLINE struct place *add(void *table, struct key *key, u32 hash, u32 mark, u32 bytes, struct counters *counters)
{
	const any64 *addresses = (const any64 *)key;
	struct place *oldest = 0;
	struct adding *guard;
	u32 first = 0, oldest_mark = 0, oldest_age = 0;

	for (u32 step = 0; step < PLACES; step++) {
		u32 index = (hash + step) & place_mask, found, age;
		struct place *place = map_lookup(table, &index);

		if (!place)
			return 0;
		found = place->mark;
		// The protocol is no part of the time. Where another processor has used the flow since this packet came, the age is 0.
		age = ((mark >> 8) - (found >> 8)) % MARK_TIMES;
		age = (u8)found ? (age < MARK_TIMES - MARK_SECOND ? age : 0) : ~0U;
		if (!oldest || age > oldest_age) {
			oldest = place;
			oldest_mark = found;
			oldest_age = age;
		}
	}
	guard = map_lookup(&adding, &first);
	if (!oldest || !guard)
		return 0;
	lock(&guard->lock);
	// Another processor may have taken it.
	if (oldest->mark == oldest_mark) {
		oldest->mark = NO_FLOW;
		BARRIER();
		oldest->addresses[0] = addresses[0];
		oldest->addresses[1] = addresses[1];
		oldest->addresses[2] = addresses[2];
		oldest->addresses[3] = addresses[3];
		oldest->ports = *(const any32 *)&key->mesh_port;
		__builtin_memset(oldest + 1, 0, bytes);
		BARRIER();
		oldest->mark = mark;
	}
	unlock(&guard->lock);
	oldest = find_used(table, key, hash, mark);
	if (!oldest)
		counters->flows_refused++;
	return oldest;
}

INLINE u32 is_pure_ack(struct digest *digest)
{
	return digest->payload == KIND_TCP && digest->words[2] == 0 && (digest->octets[0] & (ACK | SYN | FIN | RST)) == ACK;
}

// ---- Windows ----

// Units of 2^scale bytes, rounded up.
INLINE u32 units_for(u32 bytes, u32 scale)
{
	return (u32)(((u64)bytes + (1U << scale) - 1) >> scale);
}

// The field for `limit`, rounded down to its unit but with room for the full segments that the limit holds, and for one at least. It
// offers no less than what has been offered before.
INLINE u16 lowered(struct clamp *clamp, u32 limit, u32 ack, u32 scale, u32 has_ack, u16 field)
{
	u32 mss = clamp->mss ? clamp->mss : 1, segments = limit / mss, offered = 0, units, needed;

	if (has_ack && clamp->present & HAS_EDGE) {
		offered = clamp->edge - ack;
		if ((s32)offered < 0)
			offered = 0;
	}
	segments = (segments ? segments : 1) * mss;
	units = limit >> scale;
	needed = units_for(segments, scale);
	if (units < needed)
		units = needed;
	offered = units_for(offered, scale);
	if (units < offered)
		units = offered;
	return units < field ? (u16)units : field;
}

INLINE u16 clamped(struct clamp *clamp, u32 limit, u32 ack, u8 flags, u16 field)
{
	u32 is_syn = flags & SYN, has_ack = flags & ACK, scale;

	if (!is_syn && !(clamp->present & HAS_SCALE))
		return field;
	scale = is_syn ? 0 : clamp->scale & 15;
	if (limit != NO_LIMIT)
		field = lowered(clamp, limit, ack, scale, has_ack, field);
	if (has_ack) {
		u32 edge = ack + ((u32)field << scale);

		if (!(clamp->present & HAS_EDGE) || (s32)(edge - clamp->edge) > 0) {
			clamp->edge = edge;
			clamp->present |= HAS_EDGE;
		}
	}
	return field;
}

// Takes scale and segment size from the SYNs. Scaling is on only if both ends offer it (RFC 7323 section 2.2).
INLINE void negotiate(struct flow *flow)
{
	u32 is_scaled = flow->wired.present & flow->mesh.present & OFFERS_SCALE;
	u16 mss = flow->wired.mss < flow->mesh.mss ? flow->wired.mss : flow->mesh.mss;

	if (!(flow->wired.present & flow->mesh.present & OFFERS)) {
		mss = flow->wired.present ? flow->wired.mss : flow->mesh.mss;
		flow->from_wired.mss = mss;
		flow->from_mesh.mss = mss;
		return;
	}
	flow->from_wired.mss = mss;
	flow->from_mesh.mss = mss;
	flow->from_wired.scale = is_scaled ? flow->wired.scale : 0;
	flow->from_mesh.scale = is_scaled ? flow->mesh.scale : 0;
	flow->from_wired.present |= HAS_SCALE;
	flow->from_mesh.present |= HAS_SCALE;
}

// The window field with which a segment goes on.
INLINE u16 window_of(struct scratch *scratch, u32 hash, u32 mark, u32 direction, u32 limit, struct counters *counters)
{
	struct digest *digest = &scratch->digest;
	struct key *key = &scratch->key;
	struct known *known = (struct known *)find_used(&flows, key, hash, mark);
	struct flow *flow = known ? &known->flow : 0;
	u16 field = digest->halves[0];
	u8 flags = digest->octets[0];

	if (flags & RST) {
		if (known)
			known->place.mark = NO_FLOW;
		map_delete(&opening, key);
		return field;
	}
	if (!flow)
		flow = map_lookup(&opening, key);
	else if ((flags & (SYN | ACK)) == SYN)
		// The same ports again.
		__builtin_memset(flow, 0, sizeof(*flow));
	if (flags & SYN) {
		struct offer *offer;

		if (!flow) {
			__builtin_memset(&scratch->flow, 0, sizeof(scratch->flow));
			if (map_update(&opening, key, &scratch->flow, BPF_ANY) < 0)
				counters->flows_refused++;
			flow = map_lookup(&opening, key);
			if (!flow)
				return field;
		}
		if (!(flags & ACK))
			__builtin_memset(flow, 0, sizeof(*flow));
		offer = direction == TO_MESH ? &flow->wired : &flow->mesh;
		offer->mss = digest->present & 1 ? digest->halves[1] : DEFAULT_MSS;
		offer->scale = digest->octets[1];
		offer->present = OFFERS | (digest->present & 2 ? OFFERS_SCALE : 0);
		negotiate(flow);
	} else if (!flow) {
		return field;
	} else if (!known && flow->wired.present && flow->mesh.present) {
		known = (struct known *)add(&flows, key, hash, mark, sizeof(known->flow), counters);
		if (known) {
			known->flow = *flow;
			flow = &known->flow;
			map_delete(&opening, key);
		}
	}
	return clamped(direction == TO_MESH ? &flow->from_wired : &flow->from_mesh, limit, digest->words[1], flags, field);
}

INLINE void clamp_window(
	struct __sk_buff *skb, u32 at, struct scratch *scratch, u32 hash, u32 mark, u32 direction, u32 limit, struct counters *counters)
{
	u16 old = scratch->digest.halves[0];
	u16 new = window_of(scratch, hash, mark, direction, limit, counters);

	if (new >= old)
		return;
	old = __builtin_bswap16(old);
	new = __builtin_bswap16(new);
	if (replace_sum(skb, at + 16, old, new, 2) == 0 && store_bytes(skb, at + 14, &new, 2, 0) == 0)
		counters->clamped++;
}

// ---- Pacing ----

INLINE u64 after(u64 at, u64 wait)
{
	return at + wait < at ? NONE : at + wait;
}

// Time of `bytes`, at most 2^31, at a rate in bits per second, rounded up.
INLINE u64 time_for(u64 rate, u64 bytes)
{
	if (rate == 0)
		return NONE;
	return (bytes * 8 * SECOND + rate - 1) / rate;
}

INLINE u64 next_of(struct spacing *spacing, u32 present, u64 rate)
{
	return present && rate != NONE ? after(spacing->at, time_for(rate, spacing->bytes)) : 0;
}

INLINE void record(struct spacing *spacing, u64 next, u32 present, u64 at, u64 bytes, u64 slack)
{
	u64 counted = at > slack ? at - slack : 0;

	counted = max64(counted, next);
	if (!present || counted > at)
		counted = at;
	spacing->at = counted;
	spacing->bytes = bytes;
}

// Records the departure of a packet of a flow: the second one of a pair counts with the first. Without branches, as each one
// doubles the paths that the kernel verifies; times are below 2^63.
INLINE void record_of_flow(struct lane *lane, u64 due, u32 is_second, u64 at, u64 bytes, u64 slack)
{
	u64 joins = is_second & (((at - due) | due) >> 63);
	u64 mask = -joins, first_at = lane->data.at, first_bytes = lane->data.bytes;

	record(&lane->data, due, lane->present & HAS_DATA, at, bytes, slack);
	lane->data.at = (lane->data.at & ~mask) | (first_at & mask);
	lane->data.bytes += first_bytes & mask;
	lane->present = (lane->present | HAS_DATA | IS_HALF) & ~(IS_HALF & (u32)mask);
	lane->left = at;
}

// 1 if a is less than b. Both are below 2^63. Without a branch, as in `record_of_flow`.
INLINE u64 is_less(u64 a, u64 b)
{
	return (a - b) >> 63;
}

// An opening of the gate. Its place is masked where it is used, as old verifiers forget the bounds of values that go to the stack.
INLINE u64 opening_at(struct orders *orders, u32 place)
{
	OPAQUE(place);
	return orders->openings[place & (MAX_OPENINGS - 1)];
}

// The first time from `at` on at which the gate lets a packet pass: a binary search without branches. Openings are in ascending
// order, and unused places hold a time that no cycle reaches.
INLINE u64 through_gate(struct orders *orders, u64 last, u64 at)
{
	u64 period = orders->gate_period, phase, cycle, opened;
	u32 passed = 0;

	if (period == 0)
		return at;
	phase = at % period;
	cycle = at - phase;
	for (u32 step = MAX_OPENINGS / 2; step; step /= 2) {
		passed += step * (u32)is_less(opening_at(orders, passed + step - 1), phase + 1);
	}
	passed += (u32)is_less(opening_at(orders, MAX_OPENINGS - 1), phase + 1);
	if (passed) {
		opened = cycle + opening_at(orders, passed - 1);
	} else {
		opened = cycle + opening_at(orders, orders->opening_count - 1);
		opened = opened > period ? opened - period : 0;
	}
	if (opened > last && at - opened < OPEN_FOR)
		return at;
	if (passed < orders->opening_count)
		return cycle + opening_at(orders, passed);
	return cycle + period + orders->openings[0];
}

// Whether other packets of the flow that are parked come before this one, which has a number if it was parked.
INLINE u32 is_behind(struct lane *lane, u64 time, u32 was_parked, u16 number)
{
	u16 before = was_parked ? number - lane->first : lane->next - lane->first;

	if (was_parked && before > 0x7fff)
		return 0;
	// Signed: another processor may have seen it later than this packet came.
	if (before && (long)(time - lane->seen) > (long)(3 * STAY)) {
		// The first one was lost.
		lane->first = was_parked ? number : lane->next;
		before = 0;
	}
	if (before == 0)
		lane->seen = time;
	return before;
}

INLINE void unpark(struct park *park, struct lane *lane, u32 was_parked, u16 number)
{
	if (was_parked && number == lane->first)
		lane->first++;
	park->packets -= min32(was_parked, park->packets);
}

// Takes a packet that is too early into the park, or back into it, and gives it its number. Zero if that is full: what its queue
// dropped would have a number, and the others of the flow would wait for it. Apart from `depart`, whose paths it would double.
INLINE u32 enter_park(struct schedule *schedule, struct park *park, struct lane *lane, u64 time, u32 was_parked, u16 *number)
{
	u64 epoch = (u32)(time / PARK_EPOCH), known, is_same, is_next, enters, before, now;

	lock(&schedule->lock);
	known = park->epoch;
	// Another processor may be a little ahead.
	is_same = is_less(epoch, known + 1);
	is_next = is_less(epoch ^ (known + 1), 1);
	now = park->entered[0];
	before = (park->entered[1] & -is_same) | (now & -is_next);
	now &= -is_same;
	park->epoch = (u32)((known & -is_same) | (epoch & (is_same - 1)));
	park->packets = min32(park->packets, (u32)(before + now));
	enters = is_less(park->packets, park_packets) | was_parked;
	OPAQUE(enters);
	park->packets += (u32)enters & (was_parked ^ 1);
	park->entered[0] = (u32)(now + enters);
	park->entered[1] = (u32)before;
	if (!was_parked) {
		*number = lane->next;
		if (IS_POLLING)
			lane->came[lane->next % CAME] = (u16)(time >> WAITED_SHIFT);
	}
	lane->next += (u16)enters & (was_parked ^ 1);
	unlock(&schedule->lock);
	return (u32)enters;
}

// By how much a departure may have been late for this packet alone, so that the next one is not late, too: a parked one waits until
// all others have passed.
INLINE u64 lateness(struct schedule *schedule, struct orders *orders, u32 was_parked)
{
	return IS_POLLING && was_parked ? (schedule->parks[0].packets + schedule->parks[1].packets) * orders->visit : 0;
}

// When a packet with data may leave; NONE if the pacer is full or an urgent packet would be late, TOO_EARLY if that is to be decided
// later. `number` is that of a parked packet: packets of a flow stay in their order.
INLINE u64 depart(struct schedule *schedule, struct orders *orders, struct lane *lane, u64 flow_rate, u32 in_pairs, u64 time, u32 bytes,
	u32 is_urgent, u32 was_parked, u16 number, u16 waited, u64 *paced)
{
	u64 flow_due, flow_next, aggregate_next, urgent_next, ahead, behind_all, place, at, last, left, apart;
	u64 slack = orders->gate_period, early = 2 * orders->visit, horizon = IS_POLLING ? early : HORIZON;
	u32 behind, is_second;

	lock(&schedule->lock);
	slack = max64(slack, lateness(schedule, orders, was_parked));
	behind = park_index && is_behind(lane, time, was_parked, number);
	is_second = in_pairs & (lane->present / IS_HALF);
	OPAQUE(is_second);
	flow_due = next_of(&lane->data, lane->present & HAS_DATA, flow_rate);
	flow_next = flow_due & ((u64)is_second - 1);
	aggregate_next = next_of(&schedule->aggregate, schedule->present & HAS_AGGREGATE, orders->down);
	urgent_next = next_of(&schedule->urgent, schedule->present & HAS_URGENT, orders->interactive);
	// Urgent packets go ahead of what has been given its time, but on the account of the aggregate. Beyond their rate they get what
	// the others leave.
	ahead = max64(max64(urgent_next, flow_next), max64(time, lane->left));
	behind_all = max64(aggregate_next, max64(time, schedule->last));
	if (is_urgent && !behind && ahead <= behind_all && ahead - time <= (IS_POLLING ? early : MAX_URGENT_WAIT)) {
		unpark(&schedule->parks[0], lane, was_parked, number);
		if (aggregate_next > time && schedule->aggregate.bytes < 1U << 30) {
			schedule->aggregate.bytes += bytes;
		} else {
			record(&schedule->aggregate, aggregate_next, schedule->present & HAS_AGGREGATE, time, bytes, slack);
			schedule->present |= HAS_AGGREGATE;
		}
		record(&schedule->urgent, urgent_next, schedule->present & HAS_URGENT, ahead, bytes, URGENT_BURST);
		schedule->present |= HAS_URGENT;
		record_of_flow(lane, flow_due, is_second, ahead, bytes, slack);
		*paced = ahead;
		unlock(&schedule->lock);
		return ahead;
	}
	// What the rates alone ask for.
	*paced = max64(flow_next, aggregate_next);
	// A place in the aggregate; a slow flow leaves later and does not hold the others.
	last = max64(schedule->last, lane->left);
	place = through_gate(orders, last, behind_all);
	// Packets of a flow stay in their order, and the two of a pair are apart as those of two flows are.
	// Without a gate, `(gate_period - 1) >> 63` is 1; without a rate, the quotient is 0.
	apart = (lane->data.bytes * 8 * SECOND + orders->down - 1) / orders->down;
	left = lane->left + (apart & -(u64)(is_second & ((orders->gate_period - 1) >> 63)));
	at = max64(park_index ? flow_next : min64(flow_next, time + MAX_HELD), left);
	at = at >= place ? through_gate(orders, last, at) : place;
	if (is_urgent && !behind && !was_parked && at - time > MAX_URGENT_WAIT) {
		unlock(&schedule->lock);
		return NONE;
	}
	// Of more than CAME, the time of the first one is not known any more.
	if (IS_POLLING && is_urgent && !behind && (waited > MAX_URGENT_WAIT >> WAITED_SHIFT || (u16)(lane->next - lane->first) > CAME)) {
		unpark(&schedule->parks[0], lane, was_parked, number);
		unlock(&schedule->lock);
		return NONE;
	}
	if (park_index && (behind || at - time > horizon)) {
		unlock(&schedule->lock);
		return TOO_EARLY;
	}
	unpark(&schedule->parks[0], lane, was_parked, number);
	// What is parked has been bounded.
	if (!park_index && at - time > orders->max_wait) {
		unlock(&schedule->lock);
		return NONE;
	}
	record_of_flow(lane, flow_due, is_second, at, bytes, slack);
	record(&schedule->aggregate, aggregate_next, schedule->present & HAS_AGGREGATE, place, bytes, slack);
	schedule->present |= HAS_AGGREGATE;
	schedule->last = place;
	unlock(&schedule->lock);
	return at;
}

// When an ACK may leave, which is charged what it acknowledges; NONE if it would wait too long, TOO_EARLY as in `depart`.
//
// All flows share the rate: one ACK holds those of the others for `max_ack_wait` at most. Without a number to compare with, in
// this epoch and this connection, it is charged nothing. Polling drops the oldest of more than MAX_ACKS ACKs of a flow: later ones
// repeat what it said (RFC 9293 section 3.10.7.4).
INLINE u64 depart_ack(struct schedule *schedule, struct orders *orders, struct lane *lane, u32 direction, u64 rate, u64 time, u32 ack,
	u32 was_parked, u16 number, u16 waited)
{
	u32 side = direction & 1, epoch = orders->ack_epochs[side], step;
	u64 max_wait = orders->max_ack_wait, next = 0, at;

	lock(&schedule->lock);
	if (schedule->present & HAS_ACKS)
		next = after(schedule->acks.at, min64(time_for(rate, schedule->acks.bytes), max_wait));
	at = max64(max64(next, time), schedule->last_ack);
	if (IS_POLLING) {
		u32 is_early = at - time > 2 * orders->visit;

		if (is_behind(lane, time, was_parked, number)) {
			unlock(&schedule->lock);
			return TOO_EARLY;
		}
		if (is_early && waited <= max_wait >> WAITED_SHIFT && (u16)(lane->next - lane->first) <= MAX_ACKS) {
			unlock(&schedule->lock);
			return TOO_EARLY;
		}
		next = max64(next, at - min64(at, lateness(schedule, orders, was_parked)));
		unpark(&schedule->parks[1], lane, was_parked, number);
		if (is_early) {
			unlock(&schedule->lock);
			return NONE;
		}
	} else {
		next = at;
		if (at - time > max_wait) {
			unlock(&schedule->lock);
			return NONE;
		}
	}
	step = ack - lane->acked[side];
	if (lane->ack_epochs[side] != epoch || step + MAX_STEP > 2U * MAX_STEP) {
		lane->ack_epochs[side] = epoch;
		lane->acked[side] = ack;
		step = 0;
	}
	schedule->last_ack = at;
	if ((s32)step > 0) {
		lane->acked[side] = ack;
		schedule->acks.at = next;
		schedule->acks.bytes = step;
		schedule->present |= HAS_ACKS;
	}
	unlock(&schedule->lock);
	return at;
}

INLINE struct lane *find_lane(struct key *key, u32 hash, u32 mark)
{
	struct paced *paced = (struct paced *)find_used(&lanes, key, hash, mark);

	return paced ? &paced->lane : 0;
}

INLINE struct lane *add_lane(struct key *key, u32 hash, u32 mark, struct counters *counters)
{
	struct paced *paced = (struct paced *)add(&lanes, key, hash, mark, sizeof(paced->lane), counters);

	return paced ? &paced->lane : 0;
}

INLINE u32 lane_class(struct key *key)
{
	u32 hash = (u32)key->mesh_port * 31 + key->wired_port;

	hash += (u32)key->mesh[15] * 7 + (u32)key->mesh[14] * 3 + key->wired[15];
	return CLASS_LANE + (hash ^ hash >> 4 ^ hash >> 8) % LANES;
}

// ---- Programs ----

// Returns how many of its class have passed before. A packet that was parked has been counted.
INLINE u64 count(struct counters *counters, u32 direction, struct digest *digest, u32 is_paced_udp, u32 was_parked)
{
	u32 class = OTHER;
	struct count *count;

	if (digest->payload == KIND_TCP)
		class = digest->words[2] ? TCP_DATA : TCP_CONTROL;
	else if (is_paced_udp)
		class = PACED_UDP;
	else if (digest->payload == KIND_RTP || digest->payload == KIND_RTCP)
		class = VOICE;
	count = &counters->by_class[direction & 1][class];
	if (was_parked)
		return count->packets;
	count->bytes += digest->bytes;
	return count->packets++;
}

INLINE void send_digest(struct digest *digest, struct counters *counters)
{
	struct digest *entry = ring_reserve(&digests, sizeof(*digest), 0);

	if (!entry) {
		counters->digests_lost++;
		return;
	}
	*entry = *digest;
	// The daemon reads at its own times: nobody is woken.
	ring_submit(entry, BPF_RB_NO_WAKEUP);
	counters->digests++;
}

// What `pace` is told and answers.
enum { IS_DATA = 1, IS_URGENT = 2, IN_PAIRS = 4, WAS_PARKED = 8 };
enum { HAS_NO_TIME, HAS_TIME, IS_PARKED, IS_DROPPED };

// The number of a parked packet is in `tc_index`, which test runs do not have. It is volatile, or the compiler would choose between
// two addresses in `skb`, which the kernel refuses.
INLINE u16 read_number(volatile struct __sk_buff *skb)
{
	u32 number = skb->tc_index;

	if (has_test_clock)
		number = skb->mark;
	return number;
}

INLINE void write_number(volatile struct __sk_buff *skb, u16 number)
{
	skb->tc_index = number;
	if (has_test_clock)
		skb->mark = number;
}

// Sends a packet into the park.
INLINE int send_to_park(struct __sk_buff *skb)
{
	// The park is Ethernet.
	if (mesh_is_ip) {
		u16 type = (u16)skb->protocol;

		if (change_head(skb, 14, 0) < 0 || store_bytes(skb, 12, &type, 2, 0) < 0)
			return DROP;
	}
	return (int)redirect(park_index, 0);
}

// Decides when the packet in the scratch leaves for the mesh, which has data or is an ACK, and writes that into its digest. A packet
// that is parked has its number in the scratch. Not inlined, as `read_options`.
__attribute__((noinline)) int pace(u32 what, u32 known_number, u32 hash, u32 mark, u64 rate)
{
	u32 first = 0, place = 0, was_parked = (what & WAS_PARKED) / WAS_PARKED, is_data = what & IS_DATA;
	struct scratch *scratch = map_lookup(&scratches, &first);
	struct counters *counters = map_lookup(&counts, &first);
	struct schedule *schedule = map_lookup(&schedules, &place);
	u16 number = (u16)known_number, waited = 0;
	struct digest *digest;
	struct orders *orders;
	struct lane *lane;
	struct park *park;
	u64 time, leaves, paced = 0;

	if (!scratch || !counters || !schedule)
		return HAS_NO_TIME;
	digest = &scratch->digest;
	time = digest->at;
	orders = orders_at(time);
	if (!orders)
		return HAS_NO_TIME;
	lane = find_lane(&scratch->key, hash, mark);
	// Where pacing has ended, data stays behind the packets of its flow that wait.
	if (is_data && !orders->paces_data && !(lane && (lane->left > time || lane->first != lane->next)))
		return HAS_NO_TIME;
	if (!lane)
		lane = add_lane(&scratch->key, hash, mark, counters);
	if (!lane)
		return HAS_NO_TIME;
	if (IS_POLLING && was_parked)
		waited = (u16)(time >> WAITED_SHIFT) - lane->came[number % CAME];
	if (is_data)
		leaves = depart(schedule, orders, lane, rate, (what & IN_PAIRS) / IN_PAIRS, time, digest->bytes, what & IS_URGENT,
			was_parked, number, waited, &paced);
	else
		paced = leaves =
			depart_ack(schedule, orders, lane, TO_MESH, orders->up_acks, time, digest->words[1], was_parked, number, waited);
	park = IS_POLLING && !is_data ? &schedule->parks[1] : &schedule->parks[0];
	if (leaves == TOO_EARLY && enter_park(schedule, park, lane, time, was_parked, &number)) {
		scratch->number = number;
		return IS_PARKED;
	}
	if (leaves >= TOO_EARLY)
		return IS_DROPPED;
	// A polled packet leaves now, which may be a little before its time: its answer must not be seen before it.
	digest->waited = waited;
	if (IS_POLLING)
		return HAS_TIME;
	digest->at = leaves;
	if (paced > time)
		digest->waited = (u16)min32((u32)((paced - time) >> WAITED_SHIFT), 65535);
	return HAS_TIME;
}

INLINE int handle(struct __sk_buff *skb, u32 direction)
{
	u32 first = 0, window = NO_LIMIT, class = 0, datagrams = FREE, major = mesh_major;
	u32 is_data, is_urgent, is_ack, was_parked, in_pairs = 0, paced;
	struct scratch *scratch = map_lookup(&scratches, &first);
	struct counters *counters = map_lookup(&counts, &first);
	struct treated *treated = 0;
	struct orders *orders;
	struct digest *digest;
	u64 time = now(), rate = NONE, passed;
	u32 hash, mark;
	s32 at;

	if (!scratch || !counters)
		return PASS;
	was_parked = direction == TO_MESH && unpark_index && skb->ingress_ifindex == unpark_index;
	if (skb->gso_segs > 1 && !was_parked)
		counters->super_packets++;
	at = read_packet(skb, mesh_is_ip, direction, scratch);
	if (at < 0) {
		counters->unparsed++;
		return PASS;
	}
	digest = &scratch->digest;
	digest->at = time;
	set_key(scratch, direction);
	hash = hash_of(&scratch->key);
	mark = mark_of(&scratch->key, time);
	orders = orders_at(time);
	if (orders) {
		window = orders->others_window;
		rate = orders->others_rate;
		if (orders->treatments)
			treated = (struct treated *)find(&treatments, TREATED_PLACES - 1, &scratch->key, hash);
		if (treated) {
			struct treatment *treatment = &treated->treatment;

			datagrams = treatment->datagrams;
			// A parked packet keeps its place until it leaves.
			if (datagrams == BESIDE_SOUND)
				datagrams = digest->bytes - SOUND_FIRST < SOUND_END - SOUND_FIRST && !was_parked ? FREE : ELASTIC;
			if (treatment->is_listed) {
				window = treatment->window;
				rate = treatment->rate;
				in_pairs = 1;
				class = treatment->class;
			}
		}
	} else if (!was_parked) {
		counters->unlimited++;
	}
	passed = count(counters, direction, digest, datagrams != FREE && digest->payload != KIND_TCP, was_parked);

	is_data = digest->payload == KIND_TCP ? digest->words[2] > 0 : datagrams != FREE && digest->payload != KIND_RTCP;
	is_urgent = datagrams == INTERACTIVE && digest->payload != KIND_TCP && orders && orders->interactive != NONE;
	// How packets are paced comes first: what follows is not verified where it is another way.
	if (pacing == PACING_CLASSES && direction == TO_MESH && orders && is_data && orders->paces_data) {
		u32 is_shared = digest->payload == KIND_TCP && window != NO_LIMIT && orders->others_rate == NONE;

		class = class ? class : is_urgent ? CLASS_INTERACTIVE : is_shared ? CLASS_SHARED : lane_class(&scratch->key);
		skb->priority = major | class;
		// The daemon finds out when the packet leaves its class.
		digest->waited = class;
	}
	// A parked one leaves its place, whether there is still a rate or not.
	is_ack = is_pure_ack(digest) && orders && (orders->up_acks != NONE || (IS_POLLING && was_parked));
	if (pacing == PACING_CLASSES && direction == TO_MESH && is_ack) {
		skb->priority = major | CLASS_ACKS;
		digest->waited = CLASS_ACKS;
	}
	// Each connection has a SYN into the mesh, its first one or the answer to that. Its ports may have been another one's.
	if (HAS_TIMES && direction == TO_MESH && digest->payload == KIND_TCP && digest->octets[0] & SYN) {
		struct lane *lane = find_lane(&scratch->key, hash, mark);

		if (lane)
			lane->ack_epochs[0] = lane->ack_epochs[1] = 0;
	}
	if (HAS_TIMES && direction == TO_MESH && orders && (is_data || is_ack)) {
		u32 number = was_parked ? read_number(skb) : 0, what = is_data * IS_DATA;

		what |= is_urgent * IS_URGENT | in_pairs * IN_PAIRS | was_parked * WAS_PARKED;
		paced = pace(what, number, hash, mark, rate);
		if (paced == IS_PARKED) {
			write_number(skb, scratch->number);
			return send_to_park(skb);
		}
		if (paced == IS_DROPPED) {
			counters->dropped++;
			return DROP;
		}
		if (paced == HAS_TIME && !IS_POLLING)
			skb->tstamp = digest->at;
	}
	if (sample <= 1 || digest->payload == KIND_RTP || digest->payload == KIND_RTCP ||
		(digest->payload == KIND_TCP && digest->words[2] == 0) || (digest->octets[0] & (SYN | FIN | RST)) || passed % sample == 0)
		send_digest(digest, counters);
	if (digest->payload == KIND_TCP)
		clamp_window(skb, (u32)at, scratch, hash, mark, direction, window, counters);
	return PASS;
}

SEC("classifier/to_mesh")
int fairhop_to_mesh(struct __sk_buff *skb)
{
	return handle(skb, TO_MESH);
}

SEC("classifier/from_mesh")
int fairhop_from_mesh(struct __sk_buff *skb)
{
	return handle(skb, FROM_MESH);
}

SEC("classifier/to_wired")
int fairhop_to_wired(struct __sk_buff *skb)
{
	u32 first = 0, place = 1, hash, mark;
	struct scratch *scratch;
	struct counters *counters;
	struct orders *orders;
	struct schedule *schedule;
	struct lane *lane;
	u64 time, leaves;

	// It is attached with departure times only.
	if (skb->ingress_ifindex != mesh_index)
		return PASS;
	time = now();
	orders = orders_at(time);
	if (!orders || orders->down_acks == NONE)
		return PASS;
	scratch = map_lookup(&scratches, &first);
	counters = map_lookup(&counts, &first);
	schedule = map_lookup(&schedules, &place);
	if (!scratch || !counters || !schedule)
		return PASS;
	if (read_packet(skb, wired_is_ip, FROM_MESH, scratch) < 0 || !is_pure_ack(&scratch->digest))
		return PASS;
	set_key(scratch, FROM_MESH);
	hash = hash_of(&scratch->key);
	mark = mark_of(&scratch->key, time);
	lane = find_lane(&scratch->key, hash, mark);
	if (!lane)
		lane = add_lane(&scratch->key, hash, mark, counters);
	if (!lane)
		return PASS;
	leaves = depart_ack(schedule, orders, lane, FROM_MESH, orders->down_acks, time, scratch->digest.words[1], 0, 0, 0);
	if (leaves == NONE) {
		counters->dropped++;
		return DROP;
	}
	skb->tstamp = leaves;
	return PASS;
}

SEC("classifier/park")
int fairhop_park(struct __sk_buff *skb)
{
	skb->tstamp = now() + STAY;
	return PASS;
}

SEC("classifier/unpark")
int fairhop_unpark(struct __sk_buff *skb)
{
	(void)skb;
	return (int)redirect(mesh_index, 0);
}

// Some helpers are for programs under the GPL only.
char terms[] SEC("license") = "Dual MIT/GPL";
