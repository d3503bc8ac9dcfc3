//go:build !linux

package subprocess

import "syscall"

// dieWithParent has no counterpart here: a test that panics leaves its servers.
func dieWithParent() *syscall.SysProcAttr { return nil }
