package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine describes where a result comes from.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Cache  string `json:"last_level_cache"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Redis  string `json:"redis"`
	Commit string `json:"commit"`
	// Load is the load average of the last minute before the run.
	Load string `json:"load_average"`
}

// describeMachine collects what it can; a line that cannot be had stays
// empty, since no result depends on it.
func describeMachine(root string) machine {
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	return machine{
		Load:   load,
		CPU:    procValue("/proc/cpuinfo", "model name"),
		Cores:  runtime.NumCPU(),
		Cache:  firstLine("/sys/devices/system/cpu/cpu0/cache/index3/size"),
		Memory: procValue("/proc/meminfo", "MemTotal"),
		Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Go:     runtime.Version(),
		Redis:  output(root, "redis-server", "--version"),
		Commit: output(root, "git", "describe", "--tags", "--always", "--dirty"),
	}
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s last-level cache, %s memory, Linux %s, %s, %s; Headgate %s; load average before the run %s",
		m.CPU, m.Cores, m.Cache, m.Memory, m.Kernel, m.Go, m.Redis, m.Commit, m.Load)
}

// procValue returns the value of the first "name : value" line of a file.
func procValue(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func output(dir, program string, args ...string) string {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), " malloc=") // redis-server's version line goes on for long
	return strings.TrimSpace(line)
}
