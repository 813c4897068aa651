package envoy

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Limits come from a management server: before the first there are none, and while it is away those that it sent stay.
func TestXDS(t *testing.T) {
	t.Parallel()
	server := NewXDS(t, "")
	s := newTestServer(t, options{cfg: Config{XDS: XDSConfig{Addr: server.Addr}}})
	health := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		answer, err := grpc_health_v1.NewHealthClient(s.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status
	}
	alarm := func() string {
		for _, a := range s.Alarms() {
			return a.Code
		}
		return ""
	}
	if _, err := s.should(t.Context(), newRequest(t, "edge", 0, "ip=1")); status.Code(err) != codes.Unavailable || health() != grpc_health_v1.HealthCheckResponse_NOT_SERVING || alarm() != "rls_xds_away" {
		t.Errorf("before the first limits: %v, %v, %s", err, health(), alarm())
	}
	<-server.Said
	server.Send(XDSLimits("edge", "ip", 3))
	<-server.Said
	if got := s.ask("edge", "ip=1"); got != "OK, ok 2/3" || health() != grpc_health_v1.HealthCheckResponse_SERVING || alarm() != "" {
		t.Errorf("%s, %v, %s", got, health(), alarm())
	}
	server.Send(XDSLimits("edge", "", 3))
	<-server.Said
	if got := s.ask("edge", "ip=1"); got != "OK, ok 1/3" || alarm() != "rls_config_bad" {
		t.Errorf("%s, %s", got, alarm())
	}
	server.Send(XDSLimits("edge", "ip", 4))
	<-server.Said
	if got := s.ask("edge", "ip=1"); got != "OK, ok 1/4" || alarm() != "" {
		t.Errorf("%s, %s", got, alarm())
	}
	server.Stop()
	s.eventually("an alarm", func() bool { return alarm() == "rls_xds_away" })
	if got := s.ask("edge", "ip=1"); got != "OK, ok 0/4" || health() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%s, %v", got, health())
	}
	for _, cfg := range []Config{{Limits: "x", XDS: XDSConfig{Addr: server.Addr}}, {XDS: XDSConfig{Addr: "x"}}} {
		if _, err := New(s.service, cfg); err == nil {
			t.Errorf("%+v: no error", cfg.XDS)
		}
	}
}
