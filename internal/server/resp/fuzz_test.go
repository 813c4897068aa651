package resp

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

// Whatever a client sends, the server answers or closes the connection, and answers others.
func FuzzCommands(f *testing.F) {
	for _, seed := range []string{
		"HIT a 5 AT 1769860790\r\nCOUNT a 5m 1h AT 1769860800\r\n", "MULTI\r\nINCR a\r\nEXPIRE a 5\r\nEXEC\r\n", "ALLOW a b LIMIT 5 PER 1m COST 2\r\nPEEK a NAME x\r\n",
		"SET a 5 EX 10 NX GET\r\n", "CL.THROTTLE a 1 2 3 4\r\nTOP 5m 10 PREFIX a\r\nSERIES a 1m FROM 1769860000\r\n",
		"HELLO 3 SETNAME x\r\nCLIENT SETINFO LIB-NAME y\r\nCOMMAND DOCS\r\nCONFIG GET *\r\nINFO\r\n", "MHIT a 1 b 2\r\nRATE a 10s\r\nDEL a b\r\nMGET a b\r\n",
		"*2\r\n$4\r\nECHO\r\n$3\r\nabc\r\n",
		"EVALSHA " + shaAllowN + " 1 a 10 10 0.5 1\r\nEVALSHA " + shaAllowAtMost + " 1 a 10 10 60 3\r\nEVALSHA " + shaTraefik + " 1 a 1e-4 2 2 1 5000\r\nSCRIPT EXISTS x\r\n",
		"EVALSHA " + shaFlexible + " 1 a 2 60\r\nEVALSHA " + shaBucket + " 1 b 10 1000 3 50 4\r\nEVALSHA " + shaReset + " 1 a* 0\r\nEVALSHA " + shaSliding + " 3 a b c 10 2250 1000 1\r\nEVALSHA " + shaFixedLeft + " 2 a \"\" 3\r\nEVAL x 0\r\n",
		"RESET\r\nQUIT\r\n",
	} {
		f.Add(seed)
	}
	s := newTestServer(f, Config{}, "limits: [{name: login, keys: \"login:{user}\", limit: 2, per: 1m}]")
	other := s.dial()
	f.Fuzz(func(t *testing.T, sent string) {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, _ = io.WriteString(conn, sent)
			_ = conn.(*net.TCPConn).CloseWrite() // the server may have closed it before
		}()
		in := bufio.NewReader(conn)
		for {
			if _, err := readReply(in); err != nil {
				if strings.Contains(err.Error(), "syntax") || strings.HasPrefix(err.Error(), `"`) {
					t.Fatalf("a reply that is none: %v", err)
				}
				break
			}
		}
		if _, err := other.conn.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := readReply(other.in); err != nil {
			t.Fatal(err)
		}
	})
}
