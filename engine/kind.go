package engine

import (
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// kind is what one kind of state has of its own; all else in this package
// treats states alike. Cuts, snapshots, undo and digests take deadline and
// words whole and ask no row: see DESIGN.md, which also says how to add a kind.
//
// A function that a kind has no use for is nil. r is the rule that the entry
// was last written under, unless said otherwise; now is not clamped.
type kind struct {
	// name is what users call it, and redis what TYPE and SCAN do, if that is
	// another name.
	name, redis string
	// decides marks the algorithms of RL.LIMIT. A limit of theirs of 0 units is
	// blocked.
	decides bool
	// policy marks the counters of policies' limits, which Session.Check charges and
	// decides by Algorithm.Decider. Their limits may be of 0 units too.
	policy bool
	// What its limits have: a number of units, a period, a rate with a burst
	// and a rounding, windows that align.
	units, period, rate, aligns bool
	// sized marks a state whose number of words says how to read it: a record
	// that is larger than it needs to be would be misread.
	sized bool
	// space is the key space of records that are not in databases.
	space uint8
	// expires marks a state whose deadline users set: EXPIRE, PERSIST.
	expires bool
	// packed is what the value is to engine/packed; 0 for a kind whose state is
	// the same on all nodes.
	packed packed.Kind

	// encode appends a state of more than smallState words to an effect, in
	// fewer bytes than a varint a word; decode reads what it has written, and
	// appends the state to b. Nil: a varint a word.
	encode func(b, state []byte) []byte
	decode func(b []byte, words int, d *decoder) []byte
	// large marks a state that can be large and is not packed: deltas take it in
	// pieces of evenPiece bytes.
	large bool

	// fits refuses limits that the engine's configuration has no room for.
	fits func(e *Engine, l Limit) error
	// adopt carries a state written under old over to r. Nil: it means the same
	// under every limit.
	adopt func(r, old *rule, st state, now int64) state
	// compact brings what counts to the leading words, which a resize keeps. r
	// is the rule of the call.
	compact func(r *rule, words []byte, now int64)
	// pressure is how much of its quota a key has used: see Engine.pressure.
	pressure func(r *rule, ent shard.Entry, now int64) uint32
	// describe fills in the raw state, as facts too, and what is in use.
	describe func(x *Explanation, r *rule, ent shard.Entry, now int64)
	// ask answers a call for cost units without taking them. Nil: nothing is
	// taken from this kind, so that it has no quota to tell about.
	ask func(s *Session, it *interned, ent shard.Entry, now, cost int64) Decision
	// split returns one of n equal shares of a limit of at least n units; ok is
	// false where there is none. Nil: it cannot be shared.
	split func(l Limit, n int64) (share Limit, ok bool)
}

// kinds has a row for each Algorithm but blocked, which no state has.
//
// It has no function to decide by: a decision goes through the one switch of
// Session.evaluate.
var kinds = [...]kind{
	Token: {
		name: "token", decides: true, units: true, period: true, rate: true,
		adopt: adoptBucket, pressure: bucketPressure, describe: describeBucket, ask: askDecision, split: splitBucket,
	},
	Leaky: {
		name: "leaky", decides: true, units: true, period: true, rate: true,
		adopt: adoptBucket, pressure: bucketPressure, describe: describeBucket, ask: askDecision, split: splitBucket,
	},
	Fixed: {
		name: "fixed", decides: true, units: true, period: true, aligns: true,
		adopt: adoptCounts, pressure: fixedPressure, describe: describeFixed, ask: askDecision, split: splitUnits,
	},
	Sliding: {
		name: "sliding", decides: true, units: true, period: true, aligns: true,
		adopt: adoptCounts, pressure: slidingPressure, describe: describeSliding, ask: askDecision, split: splitUnits,
	},
	Log: {
		name: "log", decides: true, units: true, period: true, fits: fitsLog,
		encode: encodePairs, decode: decodePairs, large: true,
		compact: (*rule).trimLog, pressure: listPressure, describe: describeLog, ask: askDecision, split: splitUnits,
	},
	Slots: {
		name: "slots", units: true,
		large: true, compact: compactSlots, pressure: listPressure, describe: describeSlots, ask: askSlots,
	},
	Counter: {
		name: "counter", redis: "string", sized: true, expires: true,
		encode: encodeBytes, decode: decodeBytes, large: true,
		pressure: valuePressure, describe: describeCounter,
	},
	Hash: {
		name: "hash", sized: true, expires: true, packed: packed.HashKind,
		encode: encodeCollection, decode: decodeCollection(packed.HashKind),
		pressure: valuePressure, describe: describeCollection,
	},
	Set: {
		name: "set", sized: true, expires: true, packed: packed.SetKind,
		encode: encodeCollection, decode: decodeCollection(packed.SetKind),
		pressure: valuePressure, describe: describeCollection,
	},
	SortedSet: {
		name: "zset", sized: true, expires: true, packed: packed.SortedSetKind,
		encode: encodeCollection, decode: decodeCollection(packed.SortedSetKind),
		pressure: valuePressure, describe: describeCollection,
	},
	List: {
		name: "list", sized: true, expires: true, packed: packed.ListKind,
		encode: encodeCollection, decode: decodeCollection(packed.ListKind),
		pressure: valuePressure, describe: describeCollection,
	},
	PolicyToken: {
		name: "policy-token", redis: policyType, policy: true, units: true, period: true, rate: true,
		adopt: adoptBucket, pressure: bucketPressure, describe: describeBucket, ask: askDecision, split: splitBucket,
	},
	PolicyLeaky: {
		name: "policy-leaky", redis: policyType, policy: true, units: true, period: true, rate: true,
		adopt: adoptBucket, pressure: bucketPressure, describe: describeBucket, ask: askDecision, split: splitBucket,
	},
	PolicyFixed: {
		name: "policy-fixed", redis: policyType, policy: true, units: true, period: true, aligns: true,
		adopt: adoptCounts, pressure: fixedPressure, describe: describeFixed, ask: askDecision, split: splitUnits,
	},
	PolicySliding: {
		name: "policy-sliding", redis: policyType, policy: true, units: true, period: true, aligns: true,
		adopt: adoptCounts, pressure: slidingPressure, describe: describeSliding, ask: askDecision, split: splitUnits,
	},
	PolicyLog: {
		name: "policy-log", redis: policyType, policy: true, units: true, period: true, fits: fitsLog,
		encode: encodePairs, decode: decodePairs, large: true,
		compact: (*rule).trimLog, pressure: listPressure, describe: describeLog, ask: askDecision, split: splitUnits,
	},
	PolicyCalendar: {
		name: "calendar", redis: policyType, policy: true, units: true,
		pressure: calendarPressure, describe: describeCalendar, ask: askDecision, split: splitUnits,
	},
	PolicySlots: {
		name: "policy-slots", redis: policyType, policy: true, units: true, period: true,
		large: true, compact: compactSlots, pressure: listPressure, describe: describeSlots, ask: askSlots,
	},
	HoldRecord: {
		name: "hold", sized: true, space: internal,
		encode: encodeBytes, decode: decodeBytes,
		pressure: valuePressure, describe: describeReservation,
	},
	OffenceRecord: {
		name: "offences", space: offenders,
		pressure: offencePressure, describe: describeOffences,
	},
}

// policyType is what TYPE says of a policy's counter, whatever decides.
const policyType = "policy"

// unknown is the row of blocked, and of what is no algorithm.
var unknown = kind{name: "unknown"}

// kind returns a's row.
func (a Algorithm) kind() *kind {
	if int(a) < len(kinds) {
		return &kinds[a]
	}
	return &unknown
}

// encodeBytes writes a state that is bytes: as they are.
func encodeBytes(b, state []byte) []byte { return append(b, state...) }

// decodeBytes reads what encodeBytes has written.
func decodeBytes(b []byte, words int, d *decoder) []byte {
	return append(b, d.bytes(uint64(8*words))...)
}

// state is a deadline and the first two words of a record: all of the state of
// a kind that has no more. The zero value is that of a missing key.
type state struct {
	deadline      int64
	first, second uint64 // an array would be copied through memory
}

// load reads the state of an entry, which has a word or more.
func load(ent shard.Entry) state {
	st := state{deadline: ent.Deadline(), first: ent.Word(0)}
	if ent.Words() > 1 {
		st.second = ent.Word(1)
	}
	return st
}
