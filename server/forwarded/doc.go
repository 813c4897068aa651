// Package forwarded makes the keys of requests that a proxy asks about, from what the proxy says
// of them in X-Forwarded fields: ip:(client) is ip:192.0.2.7.
//
// A field may hold a list, and what stands on its left may be the client's own invention: each proxy
// adds on the right. So the last of a list counts, which is what the asking proxy itself wrote.
//
// Invariants. Whatever a client sends, a key is made of it, of at most weir.MaxKeyBytes: no request
// passes, or fails, because its key could not be made. A value holds no colon, so that no client
// can make the key of another by its path or a field; the exception is an address.
package forwarded
