// Package diskspace returns how much room a file system has, and whether a
// write has failed because it has none.
package diskspace
