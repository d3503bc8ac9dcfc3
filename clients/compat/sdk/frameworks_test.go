package sdk_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/clients/go/goredis"
	"github.com/headgate-io/headgate/clients/go/grpclimit"
	"github.com/headgate-io/headgate/clients/go/httplimit"
)

// TestFrameworks has a route of each framework behind a limit of 2 per hour.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.ReleaseMode)
	for name, serve := range map[string]func(limited func(http.Handler) http.Handler) http.Handler{
		"net/http": func(limited func(http.Handler) http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /page/{id}", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.PathValue("id"))) })
			return limited(mux)
		},
		"chi": func(limited func(http.Handler) http.Handler) http.Handler {
			router := chi.NewRouter()
			router.Use(limited)
			router.Get("/page/{id}", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(chi.URLParam(r, "id"))) })
			return router
		},
		"echo": func(limited func(http.Handler) http.Handler) http.Handler {
			e := echo.New()
			e.Use(echo.WrapMiddleware(limited))
			e.GET("/page/:id", func(c *echo.Context) error { return c.String(http.StatusOK, c.Param("id")) })
			return e
		},
		"gin": func(limited func(http.Handler) http.Handler) http.Handler {
			engine := gin.New()
			engine.GET("/page/:id", func(c *gin.Context) { c.String(http.StatusOK, c.Param("id")) })
			return limited(engine)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := goredis.New([]string{servers.Plain.Addr}, nil, headgate.Options{Timeout: 5 * time.Second})
			defer func() { _ = c.Close(context.Background()) }()
			limited, err := httplimit.New(c, httplimit.Options{Name: newKey(), Limit: headgate.Limit{Units: 2, Period: time.Hour}})
			require.NoError(t, err)
			service := httptest.NewServer(serve(limited))
			defer service.Close()
			for i := range 3 {
				r, err := http.Get(service.URL + "/page/7")
				require.NoError(t, err)
				require.NoError(t, r.Body.Close())
				if i < 2 {
					assert.Equal(t, http.StatusOK, r.StatusCode)
					assert.Empty(t, r.Header.Get("Retry-After"))
				} else {
					assert.Equal(t, http.StatusTooManyRequests, r.StatusCode)
					assert.Equal(t, "1800", r.Header.Get("Retry-After"))
					assert.Equal(t, "application/problem+json", r.Header.Get("Content-Type"))
				}
				assert.Equal(t, "2", r.Header.Get("X-RateLimit-Limit"))
				assert.Equal(t, []string{"1", "0", "0"}[i], r.Header.Get("X-RateLimit-Remaining"))
			}
		})
	}
}

// TestLinesOfReadme finds each line of the README about a framework in this file.
func TestLinesOfReadme(t *testing.T) {
	readme, err := os.ReadFile("../../go/README.md")
	require.NoError(t, err)
	this, err := os.ReadFile("frameworks_test.go")
	require.NoError(t, err)
	lines := regexp.MustCompile("(?m)^\\| (?:net/http|chi|echo|gin|gRPC) \\| `(?:http\\.ListenAndServe\\(addr, )?(.*?\\))\\)?`").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, lines, 5)
	for _, line := range lines {
		assert.Contains(t, string(this), line[1])
	}
}

// TestGRPC limits calls and streams of a server of gRPC.
func TestGRPC(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		addr string
		on   headgate.OnFailure
		code codes.Code // of the third call
		wait bool
	}{
		"denied": {servers.Plain.Addr, headgate.Local, codes.ResourceExhausted, true},
		"closed": {"127.0.0.1:1", headgate.Closed, codes.Unavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			c := goredis.New([]string{test.addr}, nil, headgate.Options{Timeout: 5 * time.Second, Logger: quiet})
			defer func() { _ = c.Close(ctx) }()
			o := grpclimit.Options{Name: newKey(), Limit: headgate.Limit{Units: 2, Period: time.Hour, OnFailure: test.on}}
			unary, err := grpclimit.Unary(c, o)
			require.NoError(t, err)
			stream, err := grpclimit.Stream(c, o)
			require.NoError(t, err)
			s := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
			grpc_health_v1.RegisterHealthServer(s, health.NewServer())
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			go func() { _ = s.Serve(l) }()
			defer s.Stop()
			conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			client := grpc_health_v1.NewHealthClient(conn)
			if test.on == headgate.Local {
				_, err = client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
				require.NoError(t, err)
				watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
				require.NoError(t, err)
				_, err = watch.Recv()
				require.NoError(t, err)
			}
			_, err = client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			require.Equal(t, test.code, status.Code(err))
			details := status.Convert(err).Details()
			require.Len(t, details, 1)
			assert.Positive(t, details[0].(*errdetails.RetryInfo).RetryDelay.AsDuration())
			watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
			require.NoError(t, err)
			_, err = watch.Recv()
			require.Equal(t, test.code, status.Code(err))
		})
	}
	_, err := grpclimit.Unary(nil, grpclimit.Options{})
	require.Error(t, err)
	_, err = grpclimit.Stream(nil, grpclimit.Options{Policy: headgate.Policy{Name: "p"}, Key: func(context.Context, string) string { return "" }})
	require.Error(t, err)
}

// TestMisconfigured has a policy that the server does not have, and a key of another type.
func TestMisconfigured(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for library, connect := range connects {
		t.Run(library, func(t *testing.T) {
			c := connect([]string{servers.Plain.Addr}, headgate.Options{Timeout: 5 * time.Second, Logger: quiet})
			defer func() { _ = c.Close(ctx) }()
			limit := headgate.Limit{Units: 10, Period: time.Hour, NoLease: true}
			unary, err := grpclimit.Unary(c, grpclimit.Options{
				Policy:     headgate.Policy{Name: "nobody", Limit: limit},
				Attributes: func(context.Context, string) headgate.Attributes { return headgate.Attributes{"user": "eve"} },
			})
			require.NoError(t, err)
			key := newKey()
			_, err = c.Acquire(ctx, key, 1, time.Minute, headgate.Local)
			require.NoError(t, err)
			name, who, _ := strings.Cut(key, ":")
			wrap, err := httplimit.New(c, httplimit.Options{Limit: limit, Name: name, Key: func(*http.Request) string { return who }})
			require.NoError(t, err)
			h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			for i := range 3 { // a fifth of 10 passes
				_, err := unary(ctx, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
				assert.Equal(t, []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted}[i], status.Code(err), "%v", err)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				assert.Equal(t, []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests}[i], w.Code)
			}
			assert.Equal(t, int64(6), c.Stats().Mistakes)
			assert.False(t, c.Stats().Away)
		})
	}
}
