// Package reservation has the record of a reservation, which users call a hold: what
// RL.RESERVE has charged until it is settled. It has the record's bytes, and the index of
// which reservations end when. It knows no table and no lock; the engine takes and
// settles reservations.
//
//   - Record is what is known of a reservation, Held what it holds of one limit.
//   - Encoder, Append, Read and Reader write and read the bytes: see code.go.
//   - Index has the hashes of open reservations by the second of their end, and of
//     settled ones in order.
//
// DESIGN.md has the reasons.
package reservation
