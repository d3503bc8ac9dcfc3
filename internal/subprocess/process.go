// Package subprocess starts headgate, or a server that it is compared with, as
// a process of its own on this machine.
package subprocess

import (
	"os"
	"os/exec"
	"strings"
)

// Command prepares a run of a program. Its environment is this process's
// without the variables that headgate takes parameters from (HEADGATE_…).
func Command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HEADGATE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}
