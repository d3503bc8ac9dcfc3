// Package wire is how limits are written in the Redis protocol: numbers, periods and
// options as arguments, and decisions as replies.
package wire
