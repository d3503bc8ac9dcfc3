package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// goRoom returns the directory of a separate module. So the library's own requirements
// choose the versions of its dependencies.
func (w *workshop) goRoom(s *suite) (string, error) {
	return w.path("go", strings.ReplaceAll(s.library, "/", "-")+"-"+s.version)
}

func fetchGo(w *workshop, s *suite) error {
	dir, err := w.goRoom(s)
	if err != nil {
		return err
	}
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		if err := w.install(dir, "go", "mod", "init", "headgate-dropin"); err != nil {
			return err
		}
	}
	args := []string{"get", "-t"}
	for _, p := range s.packages {
		args = append(args, p+"@"+s.version)
	}
	if err := w.install(dir, "go", args...); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o644)
}

func runGo(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	dir, err := w.goRoom(s)
	if err != nil {
		return result{}, err
	}
	host, port, err := net.SplitHostPort(t.addr)
	if err != nil {
		return result{}, err
	}
	env := []string{"REDIS_URI=redis://" + t.addr + "/0", "REDIS_HOST=" + host, "REDIS_PORT=" + port}
	args := []string{"test", "-json", "-count=1"}
	if len(s.tests) > 0 {
		args = append(args, "-run", strings.Join(s.tests, "|"))
	}
	out, err := w.test(ctx, dir, env, "go", append(args, s.packages...)...)
	if err != nil {
		return result{}, err
	}
	res, err := readGo(out)
	if err == nil && len(res.passed)+len(res.failed) == 0 {
		err = errors.New("no test was run:\n" + string(out))
	}
	return res, err
}

// readGo reads the events of go test -json. Tests of tests are not counted.
func readGo(out []byte) (result, error) {
	var res result
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var event struct{ Action, Package, Test string }
		if err := d.Decode(&event); err != nil {
			return res, err
		}
		if event.Test == "" || strings.Contains(event.Test, "/") {
			continue
		}
		name := filepath.Base(event.Package) + " " + event.Test
		switch event.Action {
		case "pass":
			res.passed = append(res.passed, name)
		case "fail":
			res.failed = append(res.failed, name)
		case "skip":
			res.skipped = append(res.skipped, name)
		}
	}
	return res, nil
}
