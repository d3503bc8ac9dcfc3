// Package compare executes a sequence of commands on two servers, the oracle and the
// subject. It compares every reply byte for byte, and at the end every stored value.
//
// A Pair is the two servers. Documented lists where their replies may differ,
// and why.
package compare
