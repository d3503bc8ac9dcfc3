// Package sequence makes random sequences of Redis commands, the same for the same seed.
// They are for comparing a server with an oracle. So no reply is left to chance, and no
// key is touched at the moment of its expiry.
//
// A Step is one command on one of a few connections, or a wait. A Generator
// makes sequences of them from the templates in strings.go, keys.go, hashes.go
// and so on, one line a command.
package sequence
