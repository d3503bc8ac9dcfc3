package calendar

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// zoneinfo contains the rules of all zones: a zip of files in the format of RFC 9636, with
// the names of zones. time.LoadLocation would first read the machine's rules, and two
// machines may have rules of different years.
//
//go:generate sh -c "cp \"$(go env GOROOT)/lib/time/zoneinfo.zip\" zoneinfo.zip"
//go:embed zoneinfo.zip
var zoneinfo []byte

// archive opens zoneinfo.
var archive = sync.OnceValue(func() *zip.Reader {
	r, err := zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		panic("zoneinfo.zip: " + err.Error()) // it is part of the binary
	}
	return r
})

// zones are the zones that have been loaded, by name.
var zones sync.Map

// Zone returns the zone with a name such as UTC or Europe/Paris. Upper and lower case
// matter. It returns an error for an unknown name.
func Zone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	i := slices.IndexFunc(archive().File, func(f *zip.File) bool { return f.Name == name })
	if i < 0 || strings.HasSuffix(name, "/") {
		return nil, fmt.Errorf("there is no zone %q", name)
	}
	z, err := readZone(archive().File[i])
	if err != nil {
		return nil, fmt.Errorf("zone %s: %w", name, err)
	}
	known, _ := zones.LoadOrStore(name, z)
	return known.(*time.Location), nil
}

func readZone(f *zip.File) (*time.Location, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(f.Name, data)
}

// Zones returns the names of all zones, sorted.
func Zones() []string {
	var names []string
	for _, f := range archive().File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}
