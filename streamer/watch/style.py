"""How the screens look: sizes, colours, what gives way in a small terminal."""

CSS = """\
Screen { layout: vertical; }
#title { text-style: bold; }
#title, #session, #problem, #missing, #clock, #progress, #outcome, #end, #cost, #budget, #said, #note {
    height: auto; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis;
}
#problem, #missing { text-wrap: wrap; max-height: 6; }
#progress { color: $success; }
#session { color: $accent; }
#note, #said { color: $text-muted; }
#filter { dock: bottom; margin-bottom: 1; }

BoardTable { padding: 0 0 0 1; overflow-x: hidden; scrollbar-size-vertical: 1; background: $background; }
BoardTable > .datatable--header { text-style: bold underline; background: $background; color: $foreground; }
BoardTable:focus > .datatable--header { background: $background; }
BoardTable > .datatable--cursor { text-style: none; }
BoardTable:focus > .datatable--cursor { text-style: bold; }
.-plain BoardTable:focus > .datatable--cursor { text-style: bold reverse; }

.-stale BoardTable, .-stale #progress, .-stale #outcome, .-stale #end, .-stale #cost, .-stale #budget {
    text-opacity: 55%;
}

#main { height: 1fr; }
#agents { height: auto; max-height: 40%; }
#running { display: none; height: auto; max-height: 7; }
.-high #running { display: block; }
.-high #running.-none { display: none; }
#middle { height: 1fr; }
#tiers { height: auto; max-height: 70%; }
#trials { height: 1fr; min-height: 2; }
#rejections { height: auto; max-height: 2; }
.-high #rejections { max-height: 8; }
.-high BoardTable { margin-top: 1; }
.-wide #middle { layout: horizontal; }
.-wide #tiers { width: 2fr; max-height: 100%; }
.-wide #trials { width: 3fr; height: 100%; }

HelpScreen { align: center middle; background: $background; }
#help {
    width: 100%; max-width: 82; height: auto; max-height: 100%; padding: 0 1; scrollbar-size-vertical: 1;
}
"""
