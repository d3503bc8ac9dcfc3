package native_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script"
)

var (
	publishedToo = flag.Bool("published", false, "fetch the packages of libraries and compare the scripts in them")
	stepsOfEach  = flag.Int("steps", 1000, "random steps for each script")
	seedOfSteps  = flag.Uint64("seed", 0, "what they are drawn from, as a failure tells; 0 is the time")
)

// source is a file of a published package that has scripts in it.
type source struct {
	fetch func(dir, name, version string) (archive string, err error)
	name  string
	// version is one version with the text; others may have the same.
	version string
	file    string // in the package
}

// sources are where the texts are: none is kept here.
var sources = []source{
	{npm, "rate-limit-redis", "3.0.0", "package/dist/index.cjs"},
	{npm, "rate-limit-redis", "4.2.2", "package/dist/index.cjs"},
	{npm, "rate-limit-redis", "4.2.3", "package/dist/index.cjs"},
	{npm, "rate-limit-redis", "6.0.1", "package/dist/index.cjs"},
	{npm, "@fastify/rate-limit", "8.1.0", "package/store/RedisStore.js"},
	{npm, "@fastify/rate-limit", "10.0.0", "package/store/RedisStore.js"},
	{npm, "@fastify/rate-limit", "10.2.0", "package/store/RedisStore.js"},
	{npm, "@fastify/rate-limit", "11.2.0", "package/store/RedisStore.js"},
	{npm, "@nest-lab/throttler-storage-redis", "1.2.0", "package/src/throttler-storage-redis.service.js"},
	{npm, "rate-limiter-flexible", "11.4.0", "package/lib/RateLimiterRedis.js"},
	{debian, "php-illuminate-cache", "8.83.26", "usr/share/php/Illuminate/Cache/RedisStore.php"},
	{debian, "php-illuminate-cache", "8.83.26", "usr/share/php/Illuminate/Cache/LuaScripts.php"},
	{debian, "php-illuminate-redis", "8.83.26", "usr/share/php/Illuminate/Redis/Limiters/DurationLimiter.php"},
	{debian, "php-illuminate-redis", "8.83.26", "usr/share/php/Illuminate/Redis/Limiters/ConcurrencyLimiter.php"},
	{golang, "github.com/ulule/limiter/v3", "v3.11.2", "drivers/store/redis/store.go"},
	{golang, "github.com/go-redis/redis_rate/v10", "v10.0.1", "lua.go"},
	{golang, "github.com/throttled/throttled/v2", "v2.15.0", "store/redigostore/redigostore.go"},
	{npm, "async-ratelimiter", "1.5.2", "package/src/index.js"},
	{npm, "async-ratelimiter", "1.6.10", "package/src/index.js"},
	{pypi, "fastapi-limiter", "0.1.6", "fastapi_limiter/__init__.py"},
	{pypi, "django-redis", "5.4.0", "django_redis/client/default.py"},
	{pypi, "pyrate-limiter", "4.4.0", "pyrate_limiter/buckets/redis_bucket.py"},
	{pypi, "pyrate-limiter", "3.9.0", "pyrate_limiter/buckets/redis_bucket.py"},
	{pypi, "limits", "5.8.0", "limits/resources/redis/lua_scripts/incr_expire.lua"},
	{pypi, "limits", "5.8.0", "limits/resources/redis/lua_scripts/acquire_moving_window.lua"},
	{pypi, "limits", "4.8.0", "limits/resources/redis/lua_scripts/acquire_moving_window.lua"},
	{pypi, "limits", "5.8.0", "limits/resources/redis/lua_scripts/moving_window.lua"},
	{pypi, "limits", "4.8.0", "limits/resources/redis/lua_scripts/moving_window.lua"},
	{pypi, "limits", "5.8.0", "limits/resources/redis/lua_scripts/acquire_sliding_window.lua"},
	{pypi, "limits", "5.8.0", "limits/resources/redis/lua_scripts/sliding_window.lua"},
	{maven, "org.springframework.cloud:spring-cloud-gateway-core", "2.2.0.RELEASE", "META-INF/scripts/request_rate_limiter.lua"},
	{maven, "org.springframework.cloud:spring-cloud-gateway-server", "3.0.0", "META-INF/scripts/request_rate_limiter.lua"},
	{maven, "org.springframework.cloud:spring-cloud-gateway-server", "3.1.0", "META-INF/scripts/request_rate_limiter.lua"},
	{maven, "org.springframework.cloud:spring-cloud-gateway-server", "4.2.0", "META-INF/scripts/request_rate_limiter.lua"},
	{maven, "org.springframework.cloud:spring-cloud-gateway-server", "4.3.0", "META-INF/scripts/request_rate_limiter.lua"},
	{maven, "com.bucket4j:bucket4j-redis", "8.10.1", "io/github/bucket4j/redis/consts/LuaScripts.class"},
}

// shelf has the texts of the sources.
type shelf map[string]string // by SHA1

// newShelf fetches the packages, those that are not in the cache directory of
// make test-dropin yet.
func newShelf(t *testing.T) shelf {
	home, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(home, "headgate-dropin", "scripts")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	s := shelf{}
	for _, src := range sources {
		archive, err := src.fetch(dir, src.name, src.version)
		require.NoError(t, err, "%s %s", src.name, src.version)
		content, err := unpack(archive, src.file)
		require.NoError(t, err, "%s %s", src.name, src.version)
		for _, body := range scriptsIn(src.file, content) {
			s[script.Digest([]byte(body))] = body
		}
	}
	return s
}

// text returns the text of a SHA1.
func (s shelf) text(t *testing.T, sha string) string {
	body, ok := s[sha]
	require.True(t, ok, "no package has a script with the SHA1 %s", sha)
	return body
}

// output runs a program and returns what it prints.
func output(dir, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w\n%s", program, args, err, stderr.Bytes())
	}
	return out, nil
}

func npm(dir, name, version string) (string, error) {
	file := filepath.Join(dir, strings.NewReplacer("@", "", "/", "-").Replace(name)+"-"+version+".tgz")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	_, err := output(dir, "npm", "pack", "--silent", name+"@"+version)
	return file, err
}

func pypi(dir, name, version string) (string, error) {
	file := filepath.Join(dir, strings.ReplaceAll(name, "-", "_")+"-"+version+"-py3-none-any.whl")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	_, err := output(dir, "python3", "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", name+"=="+version)
	return file, err
}

func maven(dir, name, version string) (string, error) {
	group, artifact, _ := strings.Cut(name, ":")
	file := filepath.Join(dir, artifact+"-"+version+".jar")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	url := "https://repo1.maven.org/maven2/" + strings.ReplaceAll(group, ".", "/") + "/" + path.Join(artifact, version, filepath.Base(file))
	_, err := output(dir, "curl", "-sSf", "-o", file+".part", url)
	if err != nil {
		return "", err
	}
	return file, os.Rename(file+".part", file)
}

// debian returns a directory. The version is that of the system's release.
func debian(dir, name, _ string) (string, error) {
	tree := filepath.Join(dir, name)
	if _, err := os.Stat(tree); err == nil {
		return tree, nil
	}
	if _, err := output(dir, "apt-get", "download", "-q", name); err != nil {
		return "", err
	}
	packages, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
	if err != nil || len(packages) == 0 {
		return "", fmt.Errorf("apt-get has put no %s into %s: %w", name, dir, err)
	}
	_, err = output(dir, "dpkg-deb", "-x", packages[0], tree)
	return tree, err
}

// golang returns a directory.
func golang(dir, name, version string) (string, error) {
	out, err := output(dir, "go", "mod", "download", "-json", name+"@"+version)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	err = json.Unmarshal(out, &module)
	return module.Dir, err
}

// unpack returns a file of a package: of a directory, or of an archive.
func unpack(archive, file string) ([]byte, error) {
	switch path.Ext(archive) {
	case ".jar", ".whl":
		z, err := zip.OpenReader(archive)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		f, err := z.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(f)
	case ".tgz":
		f, err := os.Open(archive)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, err
		}
		for r := tar.NewReader(z); ; {
			h, err := r.Next()
			if err != nil {
				return nil, fmt.Errorf("%s in %s: %w", file, archive, err)
			}
			if h.Name == file {
				return io.ReadAll(r)
			}
		}
	}
	return os.ReadFile(filepath.Join(archive, file))
}

// scriptsIn returns what may be the texts of scripts in a file: all of one in
// Lua, the strings of another.
func scriptsIn(file string, content []byte) (found []string) {
	switch path.Ext(file) {
	case ".lua":
		return []string{string(content)}
	case ".go":
		return stringsOfGo(content)
	case ".class":
		return stringsOfClass(content)
	case ".py":
		for _, m := range tripled.FindAllStringSubmatch(string(content), -1) {
			found = append(found, m[1])
		}
		return found
	case ".php":
		return stringsOfPHP(string(content))
	}
	return stringsOfJS(string(content))
}

// stringsOfGo returns the literals of a Go file.
func stringsOfGo(content []byte) (found []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "", content, 0)
	if err != nil {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				found = append(found, s, strings.TrimSpace(s))
			}
		}
		return true
	})
	return found
}

// The shape of strings, and the indents that JavaScript libraries cut off.
var (
	indent     = regexp.MustCompile(`(?m)^\s+`)
	template   = regexp.MustCompile("(?s)`[^`]*`")
	quoted     = regexp.MustCompile(`"[^"\n]*"`)
	tripled    = regexp.MustCompile(`(?s)"""(.*?)"""`)
	nowdoc     = regexp.MustCompile("(?s)<<<'LUA'\n(.*?)\nLUA;")
	apostrophe = regexp.MustCompile(`(?s)'(\\.|[^'\\])*'|"(\\.|[^"\\])*"`)
)

// stringsOfJS returns the templates and the strings of a JavaScript file, as
// they are and without what libraries cut off.
func stringsOfJS(content string) (found []string) {
	for _, s := range template.FindAllString(content, -1) {
		s = strings.ReplaceAll(s[1:len(s)-1], "\\\n", "")
		found = append(found, s, strings.TrimSpace(s), strings.TrimSpace(indent.ReplaceAllString(s, "")))
	}
	for _, s := range apostrophe.FindAllString(content, -1) {
		s = strings.NewReplacer("\\\n", "", `\'`, "'", `\"`, `"`).Replace(s[1 : len(s)-1])
		found = append(found, s)
	}
	return found
}

// stringsOfPHP returns the strings of a PHP file that may be scripts.
func stringsOfPHP(content string) (found []string) {
	for _, m := range nowdoc.FindAllStringSubmatch(content, -1) {
		found = append(found, m[1])
	}
	for _, s := range quoted.FindAllString(content, -1) {
		found = append(found, s[1:len(s)-1])
	}
	return found
}

// stringsOfClass returns the texts of the pool of constants of a Java class.
func stringsOfClass(content []byte) (found []string) {
	const header, utf8, long, double = 10, 1, 5, 6
	// The sizes of the constants after their tags.
	sizes := map[byte]int{3: 4, 4: 4, long: 8, double: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
	if len(content) < header {
		return nil
	}
	count := int(content[8])<<8 | int(content[9])
	for i, at := 1, header; i < count && at+3 <= len(content); i++ {
		tag := content[at]
		if tag == utf8 {
			n := int(content[at+1])<<8 | int(content[at+2])
			found = append(found, string(content[at+3:min(at+3+n, len(content))]))
			at += 3 + n
			continue
		}
		if tag == long || tag == double { // they count twice
			i++
		}
		at += 1 + sizes[tag]
	}
	return found
}
