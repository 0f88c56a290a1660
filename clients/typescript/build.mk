# The npm package of the TypeScript SDK. It is compiled in build/clients/typescript by the pinned compiler; nothing is written here.
TS := build/clients/typescript
TS_PACKAGE := build/clients/agent-sandbox-sdk-$(VERSION).tgz
CLIENT_PACKAGES += $(TS_PACKAGE)
# Node brings certificates of its own and does not know the ones that this machine was told to trust.
TS_NPM = NODE_EXTRA_CA_CERTS=$${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt} PATH=$(CURDIR)/build/venv/bin:$$PATH npm --prefix $(TS) --loglevel error

.PHONY: clients-typescript
clients-typescript: $(TS_PACKAGE)

$(TS)/node_modules/.package-lock.json: $(addprefix clients/typescript/,package.json package-lock.json .npmrc)
	@tests/tools/venv
	@mkdir -p $(TS)
	cp $^ $(TS)/
	$(TS_NPM) ci >$(TS)/npm.log || { cat $(TS)/npm.log; exit 1; }
	@touch $@

$(TS_PACKAGE): $(TS)/node_modules/.package-lock.json $(wildcard clients/typescript/src/*.ts clients/typescript/tsconfig*.json) \
		clients/typescript/README.md LICENSE
	rm -rf $(TS)/src $(TS)/dist
	cp -R clients/typescript/src clients/typescript/tsconfig.json clients/typescript/tsconfig.node.json clients/typescript/README.md \
		LICENSE $(TS)/
	$(TS_NPM) run build >$(TS)/npm.log || { cat $(TS)/npm.log; exit 1; }
	cd $(TS) && PATH=$(CURDIR)/build/venv/bin:$$PATH npm pack --loglevel error --pack-destination .. >npm.log || { cat npm.log; exit 1; }
