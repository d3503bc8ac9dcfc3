// Package wire reads and writes limits in the Redis protocol: numbers, periods and options
// in arguments, and decisions in replies.
package wire
