// Package auth says who may do what: identities with roles, tokens and certificates, from a
// YAML file:
//
//	identities:
//	  - name: shop
//	    permissions:
//	      - role: ingest
//	        keys: ["shop:"]
//	      - role: decide
//	        keys: ["shop:login:"]
//	        limits: [login]
//	    ceilings:
//	      requests_per_second: 100
//	    tokens:
//	      - id: k3v7q2m5ax
//	        sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	        expires: 2027-01-01T00:00:00Z
//
// A token is weir_<id>_<secret>, and the file has its SHA-256 alone. Parse and Load read a
// file into a Set; a Live is the Set in use, which Watch keeps that of the file; Create and
// Revoke edit the file.
//
// Invariants. A Set does not change. Who has no identity may do nothing. Secrets are compared
// in constant time. A Login says which token or certificate proved an identity, and Live.Check
// tells at any later time whether it still does: a token that was revoked is refused on
// connections that stay open too. The file has bounds: MaxFileBytes, MaxIdentities,
// MaxTokens, MaxPrefixes, MaxLimits, MaxCertificates.
//
// Neighbours: package service asks what a caller may do, and doors hand it what clients
// send. No protocol, key or limit is known here.
package auth
