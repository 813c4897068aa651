package auth

import "crypto/x509"

// NamesOf are the subject alternative names of a certificate, as tokens files write
// them.
func NamesOf(of *x509.Certificate) (names []string) {
	for _, name := range of.DNSNames {
		names = append(names, "dns:"+name)
	}
	for _, uri := range of.URIs {
		names = append(names, "uri:"+uri.String())
	}
	for _, address := range of.EmailAddresses {
		names = append(names, "email:"+address)
	}
	for _, address := range of.IPAddresses {
		names = append(names, "ip:"+address.String())
	}
	return names
}
