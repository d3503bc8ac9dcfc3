package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// process is a server that this program started.
type process struct {
	*subprocess.Process
	name string
	addr string // of the Redis protocol
	http string // of /readyz; empty for peers
}

// startProcess runs a server and waits until it answers PING.
func startProcess(dir, name, addr, program string, args ...string) (*process, error) {
	path := filepath.Join(dir, name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644) // a restart goes on in it
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	defer log.Close()
	cmd := subprocess.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	run, err := subprocess.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &process{Process: run, name: name, addr: addr}
	if err := p.waitReady(10 * time.Second); err != nil {
		p.stop()
		tail, _ := os.ReadFile(path) // the error says enough without it
		return nil, fmt.Errorf("start %s: %w\n%s", name, err, lastLines(string(tail), 10))
	}
	return p, nil
}

// waitReady returns when the server answers PING.
func (p *process) waitReady(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		_, err := respclient.Do(p.addr, time.Second, "PING")
		if err == nil {
			return nil
		}
		if !p.Running() {
			return errors.New("the process ended")
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer to PING: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stop ends the process: politely, and after 5 s by force.
func (p *process) stop() {
	if p != nil {
		_ = p.Stop(5 * time.Second) // an early end is reported by waitReady, a late one by the load
	}
}

// kill ends the process by SIGKILL, as a crash would.
func (p *process) kill() error {
	if err := p.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	return nil
}

// cpu returns the processor time the process has used in all its threads, in
// steps of the kernel's 10 ms.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("read CPU time of %s: %w", p.name, err)
	}
	return parseStat(string(stat))
}

// parseStat takes utime and stime from /proc/<pid>/stat (proc(5)). The second
// field is the program's name in parentheses and may hold anything.
func parseStat(stat string) (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("parse stat: %d fields", len(fields))
	}
	utime, err1 := strconv.ParseInt(fields[11], 10, 64)
	stime, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("parse stat: %w", err)
	}
	return time.Duration(utime+stime) * tick, nil
}

// rss returns the resident memory of the process in bytes.
func (p *process) rss() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("read memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("no VmRSS in /proc status")
}

// diskWritten returns the bytes that all processes have written to the disk of dir. It
// returns an error where the kernel does not count them, as for an overlay. The counter
// of a process (/proc/<pid>/io) would not do. It counts a page cache folio of a megabyte
// as written in whole for each change of a block in it.
func diskWritten(dir string) (int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	dev := info.Sys().(*syscall.Stat_t).Dev
	path := fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(dev), unix.Minor(dev))
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat))
	if len(fields) < 7 {
		return 0, fmt.Errorf("%s: %d fields", path, len(fields))
	}
	const sector = 512
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	return sectors * sector, err
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// metric returns the value of a series of /metrics, named with its labels.
func (p *process) metric(ctx context.Context, series string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s: no metric %s: %w", p.name, series, cmp.Or(lines.Err(), io.EOF))
}
