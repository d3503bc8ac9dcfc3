// Package disktest gives tests a file system of their own that can be filled up.
package disktest
