# What operators install. Each is built from a copy of the tracked files (packaging/tree), and is the same, bit for bit,
# wherever that is done: the time in it is that of the last commit.
.PHONY: deb
DEB_VERSION ?= $(VERSION)
DEB_DIR ?= build/deb
deb: ## the Debian package into build/deb/ (DEB_VERSION=, DEB_DIR=), checked by lintian
	@tools/packages install build deb
	@packaging/deb $(DEB_VERSION) $(DEB_DIR)
