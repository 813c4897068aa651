package forwarded

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// Mark is the field that proxies send when they ask whether a request may pass, and not when they only pass
// requests on. A page in a browser can't send it to another site unless that site agrees.
const Mark = "X-Forwarded-Uri"

// MaxHops is the most proxies before the service.
const MaxHops = 10

// Request is a request that a proxy asks about.
type Request struct {
	Header http.Header
	Hops   int // proxies that the request came through and that are trusted, from 1: the one that asks is the last of them
}

// last is the last value of a field, which the asking proxy wrote; "": there is none.
func (r *Request) last(field string) string {
	values := r.Header[field]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// lastOf is the last element of a list.
func lastOf(list string) string { return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:]) }

// client is the address that sent the request: as the first of the trusted proxies wrote it, or the
// furthest that is one. An IPv6 address is its /64, which one household has.
func (r *Request) client() (string, error) {
	const field = "X-Forwarded-For"
	var found netip.Addr
	lines := r.Header[field]
	for i, left := len(lines)-1, r.Hops; i >= 0; i-- {
		for line, more := lines[i], true; more; left-- {
			if left == 0 {
				return household(found), nil
			}
			comma := strings.LastIndexByte(line, ',')
			addr, ok := address(strings.TrimSpace(line[comma+1:]))
			switch {
			case ok:
				found = addr
			case found.IsValid(): // no proxy wrote that
				return household(found), nil
			default:
				return "", &service.Error{Code: api.CodeInvalidParameter, Field: field, Message: "X-Forwarded-For ends with " + service.Clip(strconv.Quote(line[comma+1:])) + ", which is no address: have the proxy write the client's there"}
			}
			if more = comma >= 0; more {
				line = line[:comma]
			}
		}
	}
	if !found.IsValid() {
		return "", &service.Error{Code: api.CodeInvalidParameter, Field: field, Message: "(client) needs the field X-Forwarded-For, with the client's address last: have the proxy send it"}
	}
	return household(found), nil
}

func household(addr netip.Addr) string {
	if addr.Is4() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// address reads an address as proxies write it: with a port or without.
func address(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		with, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = with.Addr()
	}
	return addr.Unmap().WithZone(""), true
}
