//go:build !linux

package top

import "os"

// sizeOf returns the usual size if f is a terminal.
func sizeOf(f *os.File) (width, height int, ok bool) {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return 0, 0, false
	}
	return 80, 24, true
}

// unbuffered reports that keys cannot be read one by one. Ctrl-C ends the program.
func unbuffered(*os.File) (restore func(), ok bool) { return func() {}, false }
