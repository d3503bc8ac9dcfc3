// Package reservation has the record of a reservation, which users call a hold: what
// RL.RESERVE has charged until the charge is settled. It has the record's bytes, and an index
// of when reservations end. It knows no table and no lock; the engine takes and settles
// reservations.
//
//   - Record is what is known of a reservation. Held is what the reservation holds of one
//     limit.
//   - Encoder, Append, Read and Reader write and read the bytes: see code.go.
//   - Index has the hashes of open reservations by the second of their end, and of
//     settled ones in the order of settlement.
//
// DESIGN.md has the reasons.
package reservation
