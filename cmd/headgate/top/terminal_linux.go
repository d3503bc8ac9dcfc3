package top

import (
	"os"

	"golang.org/x/sys/unix"
)

// sizeOf returns the size of a terminal. ok is false if f is none.
func sizeOf(f *os.File) (width, height int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}

// unbuffered makes a terminal pass each key on at once, without showing it. It returns a
// function that undoes this, and false if f is no terminal. Ctrl-C still sends SIGINT.
func unbuffered(f *os.File) (restore func(), ok bool) {
	was, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return func() {}, false
	}
	is := *was
	is.Lflag &^= unix.ICANON | unix.ECHO
	is.Cc[unix.VMIN], is.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &is) != nil {
		return func() {}, false
	}
	// An error means that the terminal has gone.
	return func() { _ = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, was) }, true
}
