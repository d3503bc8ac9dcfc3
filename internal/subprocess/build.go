package subprocess

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
)

// Race reports whether this program was built with the race detector.
func Race() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Build builds headgate, from the source tree that the working directory is in,
// into dir and returns the executable's path. args are further arguments of go
// build.
func Build(dir string, args ...string) (bin string, err error) {
	bin = filepath.Join(dir, "headgate")
	args = slices.Concat([]string{"build", "-o", bin}, args, []string{"github.com/headgate-io/headgate/cmd/headgate"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build headgate: %w\n%s", err, out)
	}
	return bin, nil
}
