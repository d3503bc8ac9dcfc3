package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// need is something that has to be on the machine. What package registries
// bring is installed; these are packages of the system.
type need struct {
	name  string   // the package of Debian
	check []string // a command that succeeds where it is installed
}

// missing returns the needs of a suite that this machine does not have.
func (s *suite) missing() string {
	var names []string
	for _, n := range s.needs {
		if exec.Command(n.check[0], n.check[1:]...).Run() != nil {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ", ")
}

// The interpreters of the suites whose libraries are packages of Debian.
var (
	ruby = need{"ruby", []string{"ruby", "--version"}}
	php  = need{"php-cli", []string{"php", "--version"}}

	phpRedis = need{"php-redis", []string{"php", "-r", "exit(extension_loaded('redis') ? 0 : 1);"}}
	predis   = phpFile("php-predis", "Predis/autoload.php")
)

// gem is a library of Ruby.
func gem(pkg, feature string) need {
	return need{pkg, []string{"ruby", "-e", "require '" + feature + "'"}}
}

// phpFile is a library of PHP that is installed below /usr/share/php.
func phpFile(pkg, file string) need {
	return need{pkg, []string{"php", "-r", "require '" + file + "';"}}
}

// commit is the version of a module that is a commit between releases.
var commit = regexp.MustCompile(`^v[0-9.]+-0\.(\d{4})(\d{2})(\d{2})\d{6}-[0-9a-f]{12}$`)

// versionHere is the version that is run. That of a library which is a package
// of Debian, the last of its needs, is the installed one's.
func (s *suite) versionHere() string {
	if s.version != "" || len(s.needs) == 0 {
		return strings.TrimPrefix(commit.ReplaceAllString(s.version, "of $1-$2-$3"), "v")
	}
	pkg := s.needs[len(s.needs)-1].name
	out, err := exec.Command("dpkg-query", "--show", "--showformat=${source:Upstream-Version}", pkg).Output()
	if err != nil {
		return "?"
	}
	version, _, _ := strings.Cut(string(out), "+dfsg")
	return version
}

// fetchDebian lays the contracts out. The libraries are there, or the suite is
// not run.
func fetchDebian(w *workshop, s *suite) error {
	dir, err := w.path(s.room)
	if err != nil {
		return err
	}
	_, err = w.lay(s.room, dir)
	return err
}

// runDebian runs a contract, a script that prints TAP, by the interpreter that
// its room is named after.
func runDebian(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	dir, err := w.path(s.room)
	if err != nil {
		return result{}, err
	}
	out, err := w.test(ctx, dir, append(environment(t.addr), s.env...), s.room, filepath.Join(dir, s.tests[0]))
	if err != nil {
		return result{}, err
	}
	return readTAP(out)
}
