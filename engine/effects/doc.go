// Package effects has the byte formats of replication: payloads of a batch's effects, and
// the chunks of snapshots. It knows no table and no lock.
//
//   - Encoder writes payloads of bounded size. Reader reads a payload, an Effect at a
//     time, and passes records other than keys' states to a Sink.
//   - Limits, which the engine's interner implements, maps the ids of records to limits.
//   - Changer finds the Delta of a large state to the one before, and Rebaser applies it.
//   - Decoder reads integers and bytes, from which all these formats are built.
//
// The differences between kinds of state are rows of codecs (codec.go). DESIGN.md has the
// formats and the reasons.
package effects
