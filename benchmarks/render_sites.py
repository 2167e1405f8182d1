"""Sites made by script, for `render.py`: built by npm, or from npm's prebuilt files.

Their content is the READMEs of the packages that were installed for them. Needs node and npm.
"""

import html
import json
import re
import shutil
import subprocess

PACKAGES = ("vue", "vue-router", "react@18", "react-dom@18", "docsify@4", "vitepress@1")
VITEPRESS = """
const pages = %s;
export default {
    title: "Packages", cleanUrls: true, ignoreDeadLinks: true,
    themeConfig: {
        nav: [{ text: "Guide", link: "/a/" }, { text: "Archive", link: "/archive/" }],
        sidebar: pages.map(([folder, names]) => ({
            text: folder, items: names.map((name) => ({ text: name, link: `/${folder}/${name}` })),
        })),
    },
};
"""
ARCHIVE = """# Archive

<script setup>
import { onMounted, ref } from "vue";
const names = ref([]);
onMounted(async () => { names.value = await (await fetch("/old.json")).json(); });
</script>

What is here is listed by a script.

<ul><li v-for="name in names"><a :href="'/archive/' + name">{{ name }}</a></li></ul>
"""
DOCSIFY = """<!DOCTYPE html><html><head><meta charset=utf-8><title>Packages</title></head>
<body><div id=app></div><script>window.$docsify = { loadSidebar: true, routerMode: "history",
alias: { "/.*/_sidebar.md": "/_sidebar.md" } }</script><script src=/docsify.js></script></body>"""
SHELL = """<!doctype html><html><head><meta charset=utf-8><title>Packages</title></head>
<body><noscript>Please enable JavaScript.</noscript><div id=root></div>%s</body></html>"""
VUE = """
const json = async (url) => (await fetch(url)).json();
const Links = { props: ["names"], template: `<ul><li v-for="name in names">
    <router-link :to="'/p/' + name">{{ name }}</router-link></li></ul>` };
const List = { components: { Links }, data: () => ({ names: [] }), watch: { $route: {
    immediate: true, async handler(to) {
        const first = 20 * (to.params.number || 0);
        this.names = (await json("/pages.json")).slice(first, first + 20);
    } } }, template: `<h1>Packages</h1><Links :names="names"/>
    <router-link v-for="n in [1, 2]" :to="'/list/' + n">List {{ n }} </router-link>` };
const Page = { components: { Links }, data: () => ({ page: null }), watch: { $route: {
    immediate: true, async handler(to) { this.page = await json(`/page/${to.params.name}.json`); }
    } }, template: `<article v-if="page"><h1>{{ page.name }}</h1>
    <p v-for="text in page.texts">{{ text }}</p><Links :names="page.next"/></article>` };
const routes = [{ path: "/", component: List }, { path: "/list/:number", component: List },
                { path: "/p/:name", component: Page }];
const router = VueRouter.createRouter({ history: VueRouter.createWebHistory(), routes });
Vue.createApp({ template: "<router-view/>" }).use(router).mount("#root");
"""
REACT = """
const e = React.createElement;
const useJson = (url) => {
    const [got, set] = React.useState(null);
    React.useEffect(() => { fetch(url).then((answer) => answer.json()).then(set); }, [url]);
    return got;
};
const Links = ({ names }) => e("ul", null, names.map(
    (name) => e("li", { key: name }, e("a", { href: "/p/" + name }, name))));
const List = ({ number }) => {
    const names = useJson("/pages.json") || [];
    return e("div", null, e("h1", null, "Packages"),
        e(Links, { names: names.slice(20 * number, 20 * number + 20) }),
        [1, 2].map((n) => e("a", { key: n, href: "/list/" + n }, "List " + n)));
};
const Page = ({ name }) => {
    const page = useJson(`/page/${name}.json`);
    return page && e("article", null, e("h1", null, page.name),
        page.texts.map((text, n) => e("p", { key: n }, text)), e(Links, { names: page.next }));
};
const [, kind, name] = location.pathname.split("/");
ReactDOM.createRoot(document.getElementById("root")).render(
    kind === "p" ? e(Page, { name }) : e(List, { number: +name || 0 }));
"""


def run(folder, *words):
    subprocess.run(
        words, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def contents(modules, most=60):
    """Return name and paragraphs of each package with a README, without markup."""
    found = []
    for file in sorted((*modules.glob("*/README.md"), *modules.glob("@*/*/README.md"))):
        text = re.sub(
            r"```.*?```|<[^>]*>|[{}]|!?\[|\]\([^)]*\)",
            " ",
            file.read_text("utf-8"),
            flags=re.DOTALL,
        )
        name = "-".join(file.parent.relative_to(modules).parts).replace("@", "").replace(".", "-")
        texts = [" ".join(part.split()) for part in text.split("\n\n")]
        found.append((name, [part for part in texts if part][:30]))
    return found[:most]


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def script_site(folder, pages, script, files):
    """Write a site whose pages are one shell, and JSON for each."""
    tags = "".join(f"<script src=/{file.name}></script>" for file in files)
    write(folder / "index.html", SHELL % f"{tags}<script src=/app.js></script>")
    write(folder / "app.js", script)
    for file in files:
        shutil.copy(file, folder)
    names = [name for name, _ in pages]
    write(folder / "pages.json", json.dumps(names))
    for number, (name, texts) in enumerate(pages):
        after = [names[(number + step) % len(names)] for step in (1, 7, 19)]
        page = {"name": name, "texts": texts, "next": after}
        write(folder / "page" / f"{name}.json", json.dumps(page))


def docsify_site(folder, pages, modules):
    write(folder / "index.html", DOCSIFY)
    shutil.copy(modules / "docsify" / "lib" / "docsify.min.js", folder / "docsify.js")
    write(folder / "README.md", "# Packages\n")
    write(folder / "_sidebar.md", "\n".join(f"* [{name}](/{name})" for name, _ in pages))
    for name, texts in pages:
        write(folder / f"{name}.md", f"# {name}\n\n" + "\n\n".join(map(html.escape, texts)))


def vitepress_site(folder, pages, work):
    """Build a site of four folders with a menu, and one whose pages only a script lists."""
    folders = {name: pages[n::5] for n, name in enumerate(("a", "b", "c", "d", "archive"))}
    menu = [(at, [name for name, _ in of]) for at, of in folders.items() if at != "archive"]
    source = work / "vitepress"
    write(source / ".vitepress" / "config.mjs", VITEPRESS % json.dumps(menu))
    write(source / "index.md", "# Packages\n\nSee [the first folder](/a/).\n")
    write(source / "archive" / "index.md", ARCHIVE)
    write(source / "public" / "old.json", json.dumps([name for name, _ in folders["archive"]]))
    for at, of in folders.items():
        if at != "archive":
            write(source / at / "index.md", f"# Folder {at}\n")
        for name, texts in of:
            text = "\n\n".join(map(html.escape, texts))
            write(source / at / f"{name}.md", f"# {name}\n\n{text}\n")
    run(work, "npx", "vitepress", "build", "vitepress", "--outDir", str(folder))


def build(work):
    """Build all sites below a folder, those that are not there; return their folders by name.

    Docusaurus' is its own template, with documentation and a blog.
    """
    modules, sites = work / "node_modules", work / "sites"
    if not modules.exists():
        work.mkdir(parents=True, exist_ok=True)
        write(work / "package.json", "{}")
        run(work, "npm", "install", "--no-audit", "--no-fund", "--legacy-peer-deps", *PACKAGES)
    pages = contents(modules)
    prebuilt = {
        "vue": (VUE, ["vue/dist/vue.global.prod.js", "vue-router/dist/vue-router.global.prod.js"]),
        "react": (
            REACT,
            ["react/umd/react.production.min.js", "react-dom/umd/react-dom.production.min.js"],
        ),
    }
    for name, (script, files) in prebuilt.items():
        if not (sites / name).exists():
            script_site(sites / name, pages, script, [modules / file for file in files])
    if not (sites / "docsify").exists():
        docsify_site(sites / "docsify", pages, modules)
    if not (sites / "vitepress").exists():
        vitepress_site(sites / "vitepress", pages, work)
    if not (sites / "docusaurus").exists():
        words = ("create-docusaurus@3", "docusaurus", "classic", "--javascript")
        run(work, "npx", "--yes", *words, "--package-manager", "npm")
        run(work / "docusaurus", "npx", "docusaurus", "build", "--out-dir", "../sites/docusaurus")
    return {folder.name: folder for folder in sorted(sites.iterdir())}
